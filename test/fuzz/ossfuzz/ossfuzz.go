// SPDX-License-Identifier: Apache-2.0

// Package ossfuzz runs the body of a fuzz target in a program of libFuzzer, as OSS-Fuzz builds one.
//
// There, go-118-fuzz-build puts its own testing.T in place of Go's. The bodies need Go's: testing/synctest and the rigs
// take no other. A target for OSS-Fuzz calls [Run] with the body. build.sh writes these targets.
package ossfuzz

import (
	"os"
	"sync"
	"testing"
)

// T is Go's testing.T.
type T = testing.T

// Run runs check as a test, and panics if that fails.
func Run(check func(*T)) {
	start()
	if !testing.RunTests(matchAll, []testing.InternalTest{{Name: "Input", F: check}}) {
		panic("the check of the input has failed")
	}
}

// start prepares package testing, which parses its flags in Main only. Main does not return, because its test does not.
var start = sync.OnceFunc(func() {
	os.Args = os.Args[:1] // those of libFuzzer
	ready := make(chan struct{})
	go testing.Main(matchAll, []testing.InternalTest{{Name: "Ready", F: func(*testing.T) {
		close(ready)
		select {}
	}}}, nil, nil)
	<-ready
})

func matchAll(string, string) (bool, error) { return true, nil }
