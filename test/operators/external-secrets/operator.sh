# SPDX-License-Identifier: Apache-2.0
#
# External Secrets Operator, of August 2026, with the provider "fake" only. It watches the metadata of all Secrets, has
# a second cache of those that it manages, and gets the others by requests.
# shellcheck shell=bash disable=SC2034
repository=https://github.com/external-secrets/external-secrets
commit=cc5bfbc2234ace9cb0caff4ea89c435cf517b27b
programs="stock metadata"
export GOFLAGS=-tags=fake

unit_tests() { go test -p 2 -mod=mod ./pkg/controllers/...; }

manifests() { cp config/crds/bases/*external-secrets.io_*.yaml "$1/crds"; }

# change_metadata reads Secrets by reference, and leaves the watch and lists of their metadata to the stock cache.
change_metadata() {
  import cmd/controller/root.go
  replace cmd/controller/root.go '^.*append\(clientCacheDisableFor, &v1\.Secret.*$' ''
  replace cmd/controller/root.go '^(\s*)HealthProbeBindAddress:.*$' \
    '&\n\1NewCache: controllerruntime.NewCache(controllerruntime.CacheOptions{StockMetadata: true}),\n\1NewClient: controllerruntime.NewClient,'
}
