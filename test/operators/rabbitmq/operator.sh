# SPDX-License-Identifier: Apache-2.0
#
# RabbitMQ's cluster operator, of August 2026. It selects Secrets by a label of its own, and reads the others by
# requests.
# shellcheck shell=bash disable=SC2034
repository=https://github.com/rabbitmq/cluster-operator
commit=06cda8e8e1a927a652dda20a1b169fe7667f4916
package=./cmd
programs="stock refwatch"

unit_tests() { go test -p 2 -mod=mod ./api/... ./internal/resource/... ./internal/status/... ./internal/scaling/... ./internal/metadata/...; }

manifests() {
  cp config/crd/bases/*.yaml "$1/crds"
  cp config/rbac/role.yaml config/rbac/leader_election_role.yaml "$1/rbac"
}

# change_refwatch caches Secrets by reference, without the selector, and reads from there what GetAPIReader reads.
change_refwatch() {
  import cmd/main.go
  replace cmd/main.go '^\s*&corev1\.Secret\{\}: .*$' ''
  replace cmd/main.go '^(\s*)HealthProbeBindAddress:.*$' \
    '&\n\1NewCache: controllerruntime.NewCache(controllerruntime.CacheOptions{}),\n\1NewClient: controllerruntime.NewClient,'
  replace cmd/main.go 'mgr\.GetAPIReader\(\)' 'mgr.GetClient()'
}
