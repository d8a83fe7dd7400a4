# SPDX-License-Identifier: Apache-2.0
#
# cert-manager's cainjector, of August 2026. It watches the metadata of all Secrets, and gets each by a request.
# shellcheck shell=bash disable=SC2034
repository=https://github.com/cert-manager/cert-manager
commit=2d0d7f7f74241a9cbf79f0e2a7bb247238ee09fd
module=cmd/cainjector
programs="stock metadata refwatch"

unit_tests() {
  go test -p 2 ./pkg/controller/cainjector/... &&
    (cd "$module" && go test -p 2 -mod=mod ./...)
}

manifests() { cp deploy/crds/cert-manager.io_certificates.yaml "$1/crds"; }

# change_metadata reads Secrets by reference, and leaves the watch of their metadata to the stock cache.
change_metadata() { change '{StockMetadata: true}'; }

# change_refwatch has events by reference as well.
change_refwatch() { change '{}'; }

change() {
  local main=cmd/cainjector/app/controller.go
  import $main
  replace $main '^\s*&corev1\.Secret\{\},$' ''
  replace $main 'corev1 "k8s.io/api/core/v1"' ''
  replace $main '^(\s*)LeaderElection: .*$' \
    "&\n\1NewCache: controllerruntime.NewCache(controllerruntime.CacheOptions$1),\n\1NewClient: controllerruntime.NewClient,"
}
