// SPDX-License-Identifier: Apache-2.0

// Package testmain is what the tests of every package begin and end with.
package testmain

import (
	"flag"
	"io"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"
)

// Run runs the tests of a package, and ends the process. It fails if a goroutine is left. It
// drops the log without the flag -v: a failure would be hidden among hundreds of lines. With the race
// detector and with -short, a property is checked 20 times, and not 100, unless -rapid.checks is given.
func Run(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue && (Race || testing.Short()) {
		_ = f.Value.Set("20")
	}
	if !testing.Verbose() {
		dropLog()
	}
	goleak.VerifyTestMain(m)
}

// Long skips a test that takes seconds, and minutes with the race detector: with -short, and with the race detector.
// make test runs the packages of such tests without the race detector as well: see UNRACED in the Makefile.
func Long(t *testing.T) {
	t.Helper()
	if testing.Short() || Race {
		t.Skip("takes long: not with -short or -race")
	}
}

func dropLog() {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)
}
