#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the targets of OSS-Fuzz into $OUT, in a copy of the repository that it changes. OSS-Fuzz runs it in the container
# of the Dockerfile beside it, and local.sh does without one.
set -euo pipefail

# go-118-fuzz-build compiles no files of tests, so those of a package become files of the package. Examples, and tests of
# package x_test, do not belong to it.
include_tests() {
  local folder=$1 file
  (cd "$folder" && go list -f '{{range .XTestGoFiles}}{{.}}{{"\n"}}{{end}}' .) | while read -r file; do
    [ -z "$file" ] || rm "$folder/$file"
  done
  for file in "$folder"/*_test.go; do
    mv "$file" "${file%_test.go}_test_included.go"
  done
}

# target FOLDER NAME PARAMETERS CHECK ARGUMENTS writes a target that go-118-fuzz-build can compile, and compiles it.
target() {
  local folder=$1 name=$2 parameters=$3 check=$4 arguments=$5
  cat > "$folder/ossfuzz_${name,,}.go" <<END
package ${folder##*/}

import (
	"testing"

	"github.com/refwatch/refwatch/test/fuzz/ossfuzz"
)

func OSSFuzz$name(f *testing.F) {
	f.Fuzz(func(_ *testing.T, $parameters) {
		ossfuzz.Run(func(t *ossfuzz.T) { $check(t, $arguments) })
	})
}
END
  # In the folder, because package main may import an internal package only from there.
  (cd "$folder" && compile_native_go_fuzzer "github.com/refwatch/refwatch/$folder" "OSSFuzz$name" "fuzz_${name,,}")
  rm "$folder/ossfuzz_${name,,}.go" # the next target rewrites its imports
}

# The version that the Go module proxy has. Its package testing is linked into each target.
go get github.com/AdamKorcz/go-118-fuzz-build/testing@v0.0.0-20250520111509-a70c2aa677fa

include_tests internal/h2
include_tests internal/redact
include_tests examples/nodeagent/volume

target internal/h2 ServerBytes "b []byte" checkServerBytes b
target internal/h2 Frames "b []byte" checkFrames b
target internal/h2 Differential "b []byte" checkDifferential b
target internal/h2 Retries "b []byte" checkRetries b
target internal/redact Error "shape []byte, text string" checkError "shape, text"
target examples/nodeagent/volume CleanPath "name string" checkCleanPath name
target examples/nodeagent/volume Volume "uid, name, key, first, second string, mode int32, flags byte" \
  checkVolumeOf "uid, name, key, first, second, mode, flags"
