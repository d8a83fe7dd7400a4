# SPDX-License-Identifier: Apache-2.0
#
# Flux's kustomize-controller, of August 2026. It watches the metadata of all Secrets, and gets each by a request.
# shellcheck shell=bash disable=SC2034
repository=https://github.com/fluxcd/kustomize-controller
commit=186fb3b29138ce82ff61ba1a9370b96a3dd598fe
programs="stock metadata refwatch"

# Those that need no definitions of other projects.
unit_tests() { go test -p 2 -mod=mod ./internal/decryptor/... ./internal/inventory/...; }

# manifests also makes an artifact: a ConfigMap with a value that a Secret replaces.
manifests() {
  cp config/crd/bases/*.yaml "$1/crds"
  checkout https://github.com/fluxcd/source-controller 39b711b111fa906c3db0a424e252a5d12e48646d "$1/sources.src"
  cp "$1"/sources.src/config/crd/bases/*_{gitrepositories,buckets,ocirepositories}.yaml "$1/crds"
  cp config/rbac/{role,leader_election_role}.yaml "$1/rbac"
  mkdir -p "$1/artifact"
  cat >"$1/artifact/configmap.yaml" <<'EOF'
apiVersion: v1
kind: ConfigMap
metadata: {name: page, namespace: web}
data: {word: "${word}"}
EOF
  tar -C "$1/artifact" -czf "$1/files/artifact.tar.gz" configmap.yaml
  sed -i "s/ARTIFACT_DIGEST/sha256:$(sha256sum <"$1/files/artifact.tar.gz" | cut -d ' ' -f 1)/" "$1/objects.yaml"
}

# change_metadata reads Secrets by reference, and leaves the watch of their metadata to the stock cache.
change_metadata() { change '{StockMetadata: true}'; }

# change_refwatch has events by reference as well.
change_refwatch() { change '{}'; }

change() {
  import main.go
  replace main.go 'disableCacheFor, &corev1\.Secret\{\}, ' 'disableCacheFor, '
  replace main.go '^(\s*)HealthProbeBindAddress:.*$' \
    "&\n\1NewCache: controllerruntime.NewCache(controllerruntime.CacheOptions$1),\n\1NewClient: controllerruntime.NewClient,"
}
