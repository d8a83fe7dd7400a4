# SPDX-License-Identifier: Apache-2.0
#
# mariadb-operator, of July 2026. It caches all Secrets.
# shellcheck shell=bash disable=SC2034
repository=https://github.com/mariadb-operator/mariadb-operator
commit=8970edf8368c74178e521f3dc2e9df4131888c77
package=./cmd/controller
programs="stock refwatch"

# Those of environment need variables of its Makefile.
unit_tests() {
  # shellcheck disable=SC2046
  go test -p 2 -mod=mod $(go list -mod=mod ./api/... ./pkg/... | grep -v /pkg/environment)
}

manifests() {
  cp config/crd/bases/*.yaml "$1/crds"
  cp config/rbac/{role,leader_election_role}.yaml "$1/rbac"
}

change_refwatch() {
  import cmd/controller/main.go
  replace cmd/controller/main.go '^(\s*)HealthProbeBindAddress:.*$' \
    '&\n\1NewCache: controllerruntime.NewCache(controllerruntime.CacheOptions{}),'
}
