// SPDX-License-Identifier: Apache-2.0

package canary_test

import (
	"log"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/test/canary"
)

// CaptureLog has what klog and the standard library log until its test ends.
func TestCaptureLog(t *testing.T) {
	var out *canary.Log
	t.Run("captured", func(t *testing.T) {
		out = canary.CaptureLog(t)
		klog.V(10).Info("verbose")
		log.Print("standard")
		if got := out.Take(); !strings.Contains(got, "verbose") || !strings.Contains(got, "standard") {
			t.Errorf("got %q, want both lines", got)
		}
	})
	if klog.V(10).Enabled() {
		t.Error("after the test: got verbosity 10")
	}
	if got := out.Take(); got != "" {
		t.Errorf("after Take: got %q, want nothing", got)
	}
}
