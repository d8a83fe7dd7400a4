#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: [GOVULNDB=URL] [VEX=FOLDER] vulncheck.sh GOVULNCHECK MODULE_FOLDER...
#
# Fails if a module calls code with a known vulnerability. Without GOVULNDB it uses
# Go's database, and passes with a warning if that cannot be reached. With GOVULNDB
# it fails then. With VEX it writes an OpenVEX document for each module: which known
# vulnerabilities of its dependencies affect it, and which do not because it does not
# call the code.
set -euo pipefail
govulncheck=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT

vulnerable=()
for module; do
  echo "$module:"
  status=0
  (cd "$module" && GOWORK=off "$govulncheck" ${GOVULNDB:+-db "$GOVULNDB"} ./...) >"$log" 2>&1 || status=$?
  cat "$log"
  if [ -n "${VEX:-}" ] && { [ "$status" = 0 ] || [ "$status" = 3 ]; }; then
    mkdir -p "$VEX"
    name=$(cd "$module" && go list -m | sed 's|^github.com/refwatch/||; s|/|-|g')
    (cd "$module" && GOWORK=off "$govulncheck" ${GOVULNDB:+-db "$GOVULNDB"} -format openvex ./...) >"$VEX/$name.vex.json"
  fi
  if [ "$status" = 3 ]; then # as documented by govulncheck
    vulnerable+=("$module")
  elif [ "$status" != 0 ] && [ -z "${GOVULNDB:-}" ] && grep -q '^govulncheck: fetching vulnerabilities: ' "$log"; then
    cat >&2 <<MESSAGE
vulncheck: NOT CHECKED: https://vuln.go.dev cannot be reached. Where it can, download
https://vuln.go.dev/vulndb.zip and unpack it, then: make vulncheck GOVULNDB=file:///FOLDER
MESSAGE
    exit 0
  elif [ "$status" != 0 ]; then
    exit "$status"
  fi
done
if [ "${#vulnerable[@]}" != 0 ]; then
  echo "vulncheck: FOUND in ${vulnerable[*]}: see above for the versions with a fix" >&2
  exit 1
fi
