#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: BASE=REV apidiff.sh APIDIFF MODULE_FOLDER...
#
# Lists the changes of the modules' API since the last release, or since BASE. Fails
# if CHANGELOG.md got no line since then that has the name of what changed
# incompatibly. Packages under examples/ and test/ have no stable API.
set -euo pipefail
apidiff=$1
shift
base=${BASE:-$(git describe --tags --abbrev=0 --match 'v*' HEAD 2>/dev/null || true)}
if [ -z "$base" ]; then
  echo "apidiff: NOTHING COMPARED: no tag v* is an ancestor of HEAD. BASE=REV compares with any commit." >&2
  exit 0
fi

work=$PWD/_output/apidiff
rm -rf "$work"
mkdir -p "$work/base"
git archive --format=tar "$base^{commit}" | tar -x -C "$work/base"
# The lines that the file got since then.
diff "$work/base/CHANGELOG.md" CHANGELOG.md | grep '^>' >"$work/changelog" || true

# changes prints how the API of the two versions differs, with the given flags of
# apidiff. It drops repetitions, and methods of instances of generic types: those of
# the generic type itself are listed.
changes() {
  "$apidiff" -m "$@" "$work/old" "$work/new" >"$work/stdout" 2>"$work/stderr" || { cat "$work/stderr" >&2; return 1; }
  awk '!/^- (\.\/|package .*\/)?(examples|test)[\/.:]/ && !/^- [^:]*\[\*[^:]*\]/ && !seen[$0]++' "$work/stdout"
}

export GOWORK=off
status=0
for module; do
  path=$(cd "$module" && go list -m)
  if [ ! -e "$work/base/$module/go.mod" ]; then
    echo "$path: new since $base"
    continue
  fi
  (cd "$work/base/$module" && "$apidiff" -m -w "$work/old" "$path")
  (cd "$module" && "$apidiff" -m -w "$work/new" "$path")
  echo "$path: changes since $base:"
  changes
  while IFS= read -r change; do
    # "- ./objectcache.WatchOptions.Shared: removed" is a change of Shared.
    name=$(sed -E 's/^- //; s/: .*//; s/\[.*\]//; s/.*[^A-Za-z0-9_]([A-Za-z0-9_]+)$/\1/' <<<"$change")
    if ! grep -qwF -- "$name" "$work/changelog"; then
      echo "apidiff: CHANGELOG.md does not name $name: $change" >&2
      status=1
    fi
  done < <(changes -incompatible | grep '^- ' || true)
done
exit $status
