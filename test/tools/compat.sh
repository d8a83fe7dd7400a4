#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: compat.sh KUBERNETES CONTROLLER_RUNTIME NET MODULE_FOLDER...
#
# Builds and tests modules with these versions of the Kubernetes libraries, such as
# v0.37.2, of controller-runtime where a module requires it, and of golang.org/x/net. Works on a copy of
# the tree in _output/compat. Tests without the race detector, and without crowds (-short).
set -euo pipefail
kubernetes=$1 controller_runtime=$2 net=$3
shift 3

root=$PWD
copy=$root/_output/compat
rm -rf "$copy"
mkdir -p "$copy"
git ls-files -co --exclude-standard -z | while IFS= read -r -d '' file; do
  [ ! -e "$file" ] || printf '%s\0' "$file" # not the deleted ones
done | tar -c --null -T - | tar -x -C "$copy"
git init -q -b main "$copy" # test/fuzz asks git for the files

export GOWORK=off GOFLAGS='' PATH="$root/_output/bin:$PATH" # kubectl; and go vet of the newest Go
go version
for module; do
  cd "$copy/$module"
  echo "$module: Kubernetes $kubernetes"
  # All that are released with Kubernetes have the version v0.MINOR.PATCH.
  awk -v k8s="$kubernetes" -v cr="$controller_runtime" -v net="$net" '
    $1 ~ /^k8s\.io\// && $2 ~ /^v0\.[0-9]+\.[0-9]+$/ { print $1 "@" k8s }
    $1 == "sigs.k8s.io/controller-runtime" { print $1 "@" cr }
    $1 == "golang.org/x/net" { print $1 "@" net }
  ' go.mod | xargs go get
  go mod tidy
  go list -m k8s.io/client-go golang.org/x/net
  go list -m k8s.io/client-go | grep -qF " $kubernetes" || { echo "compat: $module is not built with $kubernetes" >&2; exit 1; }
  go build ./...
  go test -short ./...
done
