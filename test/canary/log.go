// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"flag"
	"log"
	"strings"
	"sync"
	"testing"

	"k8s.io/klog/v2"
)

// Log collects lines. The zero value has none. The methods may be called concurrently.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// CaptureLog collects what klog, at verbosity 10, and the standard library log in the
// whole process, until the test ends. At that verbosity client-go logs every body.
func CaptureLog(t testing.TB) *Log {
	t.Helper()
	t.Cleanup(klog.CaptureState().Restore)
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"v": "10", "logtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	out := &Log{}
	klog.SetOutput(out)
	old := log.Writer()
	log.SetOutput(out)
	t.Cleanup(func() { log.SetOutput(old) })
	return out
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// Take returns the text since the last call.
func (l *Log) Take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}
