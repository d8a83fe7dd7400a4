# SPDX-License-Identifier: Apache-2.0
#
# CloudNativePG, of August 2026. It caches all Secrets but those of Helm.
# shellcheck shell=bash disable=SC2034
repository=https://github.com/cloudnative-pg/cloudnative-pg
commit=a95a534dbe0854495b863bbc1b7651f74d310916
package=./cmd/manager
programs="stock refwatch"

unit_tests() { go test -p 2 -mod=mod ./pkg/certs/... ./internal/configuration/...; }

# manifests also makes a certificate for the webhooks, which nothing calls, and the program that the operator looks for.
manifests() {
  cp config/crd/bases/*.yaml "$1/crds"
  cp config/rbac/role.yaml "$1/rbac"
  openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=webhooks -days 30 \
    -keyout "$1/files/apiserver.key" -out "$1/files/apiserver.crt" 2>/dev/null
  mkdir -p "$1/operator"
  touch "$1/operator/manager_$(go env GOARCH)"
}

change_refwatch() {
  local main=internal/cmd/manager/controller/controller.go
  import $main
  replace $main '^(\s*)LeaderElectionID: .*$' \
    '&\n\1NewCache: controllerruntime.NewCache(controllerruntime.CacheOptions{}),\n\1NewClient: controllerruntime.NewClient,'
}
