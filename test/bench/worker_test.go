// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/refwatch/refwatch/manager"
)

// deep recurses, and then calls leaf.
func deep(depth int, leaf func()) byte {
	var frame [512]byte
	if depth == 0 {
		leaf()
		return frame[0]
	}
	return deep(depth-1, leaf) + frame[depth%len(frame)]
}

// TestMemoryCountsStacks: a deeper stack in the goroutine of each stream must show.
func TestMemoryCountsStacks(t *testing.T) {
	const goroutines, depth = 100, 60 // 32 KB of each
	before := memoryOfProcess()
	started, stop, done := make(chan byte), make(chan struct{}), make(chan byte)
	for range goroutines {
		go func() {
			done <- deep(depth, func() {
				started <- 1
				<-stop
			})
		}()
	}
	for range goroutines {
		<-started
	}
	after := memoryOfProcess()
	close(stop)
	for range goroutines {
		<-done
	}
	if got := (after.stacks - before.stacks) / goroutines; got < depth*512 {
		t.Errorf("stacks per goroutine: got %.0f bytes more, want at least %d", got, depth*512)
	}
}

// TestCPUOfProcesses: what the kernel says of this process in two places is about the same.
func TestCPUOfProcesses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the kernel has no /proc")
	}
	const ticks = 20 * time.Millisecond // of user and of system time
	before := cpuOfProcess()
	got, err := cpuOf([]int{os.Getpid()})
	if err != nil || got < before-ticks || got > cpuOfProcess()+ticks {
		t.Errorf("got %v, %v; want about %v", got, err, before)
	}
	if got, err := cpuOf([]int{-1}); err == nil {
		t.Errorf("of no process: got %v, want an error", got)
	}
}

func TestLargeSet(t *testing.T) {
	s := set{Name: "test", Count: 1, Bytes: 1 << 20}
	secret := s.secret(0, 7)
	if got := len(secret.Data[dataKey]); got != s.Bytes {
		t.Errorf("size: got %d, want %d", got, s.Bytes)
	}
	if err := s.check(secret, 0); err != nil || editionOf(secret) != 7 {
		t.Errorf("got %v, edition %d; want no error, 7", err, editionOf(secret))
	}
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	_, err := writer.Write(secret.Data[dataKey])
	if err := errors.Join(err, writer.Close()); err != nil || compressed.Len() < s.Bytes {
		t.Errorf("compressed: got %d bytes, %v; want as many as before", compressed.Len(), err)
	}
}

func TestSet(t *testing.T) {
	s := set{Name: "test", Count: 45}
	seen := map[string]int{}
	for _, pod := range s.pods(20) {
		manager.VisitPodSecretNames(pod, func(name string) { seen[name]++ })
	}
	for i := range s.Count {
		if seen[nameOf(i)] != 1 {
			t.Errorf("references to %s: got %d, want 1", nameOf(i), seen[nameOf(i)])
		}
	}
	if err := s.check(s.secret(3, newEdition()), 3); err != nil {
		t.Errorf("check of the right Secret: got %v, want nil", err)
	}
	other := s.secret(3, 0)
	other.Data = s.secret(4, 0).Data
	if err := s.check(other, 3); err == nil || strings.Contains(err.Error(), "...") {
		t.Errorf("check of the value of another Secret: got %v, want an error without the value", err)
	}
	if s.check(nil, 3) == nil || s.check(s.secret(4, 0), 3) == nil {
		t.Error("check of no Secret, and of another: got nil, want errors")
	}
}
