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
// drops the log without the flag -v: a failure would be hidden among hundreds of lines.
func Run(m *testing.M) {
	flag.Parse()
	if !testing.Verbose() {
		dropLog()
	}
	goleak.VerifyTestMain(m)
}

func dropLog() {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)
}
