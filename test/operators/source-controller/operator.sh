# SPDX-License-Identifier: Apache-2.0
#
# Flux's source-controller, of July 2026. It gets each Secret by a request, and watches none.
# shellcheck shell=bash disable=SC2034
repository=https://github.com/fluxcd/source-controller
commit=39b711b111fa906c3db0a424e252a5d12e48646d
programs="stock refwatch"

unit_tests() { go test -p 2 -mod=mod ./internal/helm/... ./internal/index/... ./internal/reconcile/...; }

# manifests also makes an empty repository of Helm charts.
manifests() {
  cp config/crd/bases/*.yaml "$1/crds"
  cp config/rbac/{role,leader_election_role}.yaml "$1/rbac"
  printf 'apiVersion: v1\nentries: {}\ngenerated: "2026-01-01T00:00:00Z"\n' >"$1/files/index.yaml"
}

change_refwatch() {
  import main.go
  replace main.go 'disableCacheFor, &corev1\.Secret\{\}, ' 'disableCacheFor, '
  replace main.go '^(\s*)HealthProbeBindAddress:.*$' \
    '&\n\1NewCache: controllerruntime.NewCache(controllerruntime.CacheOptions{}),\n\1NewClient: controllerruntime.NewClient,'
}
