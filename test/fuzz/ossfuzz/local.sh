#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# local.sh [SECONDS [OUT]] builds the targets of OSS-Fuzz in a copy of HEAD, by build.sh, and runs each for some seconds.
# It fails if one of them does not build, or finds an input that fails. It needs clang with its libFuzzer. The commands
# of compile_native_go_fuzzer below are those of OSS-Fuzz's base image.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
seconds=${1:-10}
: "${CXX:=clang++}" "${CXXFLAGS:=-O1 -fno-omit-frame-pointer -gline-tables-only -fsanitize=address,fuzzer-no-link}"
: "${LIB_FUZZING_ENGINE:=-fsanitize=fuzzer}"

if ! command -v "$CXX" >/dev/null; then
  echo "make oss-fuzz: SKIPPED: there is no $CXX (Debian: apt-get install clang)" >&2
  exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
OUT=$(realpath -m "${2:-$work/out}")
mkdir -p "$OUT" "$work/bin" "$work/refwatch"
GOBIN=$work/bin go install github.com/AdamKorcz/go-118-fuzz-build@v0.0.0-20250520111509-a70c2aa677fa
export PATH="$work/bin:$PATH"

compile_native_go_fuzzer() {
  local folder
  folder=$(go list -tags gofuzz -f '{{.Dir}}' "$1")
  go-118-fuzz-build -tags gofuzz -o "$work/$3.a" -func "$2" "$folder"
  $CXX $CXXFLAGS $LIB_FUZZING_ENGINE "$work/$3.a" -o "$OUT/$3"
}

root=$PWD
git archive HEAD | tar -x -C "$work/refwatch"
cd "$work/refwatch"
source "$root/test/fuzz/ossfuzz/build.sh"

for fuzzer in "$OUT"/fuzz_*; do
  echo "== ${fuzzer##*/}"
  if ! (cd "$work" && "$fuzzer" -max_total_time="$seconds" -print_final_stats=1) > "$work/log" 2>&1; then
    cat "$work/log" >&2
    exit 1
  fi
  grep '^stat::' "$work/log"
done
