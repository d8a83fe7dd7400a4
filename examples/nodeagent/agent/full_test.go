// SPDX-License-Identifier: Apache-2.0

//go:build unix

package agent

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/test/apiserver"
)

// TestFullDiskRecovers: while the disk is full, the status of the volume has the error, the files are those before, and
// the agent tries again. With room again it writes the volume, without a change on the server. A limit on the size of
// files stands for a full disk.
func TestFullDiskRecovers(t *testing.T) {
	if flag.Lookup("test.testlogfile").Value.String() != "" {
		// The limit is that of the whole process, and package testing writes a large log: run in one without a log.
		if out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, apiserver.Options{InMemory: true})
		r.setSecret("tls", "k", "1")
		pod := r.createPod("web", "node-1", secretVolume("tls"))
		r.start()
		r.eventuallyHas(pod, "tls", "k", "1")

		var limit syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Skipf("cannot read the limit of file sizes: %v", err)
		}
		tight := limit
		tight.Cur = 4096
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &tight); err != nil {
			t.Skipf("cannot set the limit of file sizes: %v", err)
		}
		large := strings.Repeat("2", 5000)
		r.setSecret("tls", "k", large)
		time.Sleep(time.Minute)
		err := r.agent.Status()[pod.UID].volume("tls").Err
		same := r.has(pod, "tls", "k", "1")
		if restoreErr := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); restoreErr != nil {
			t.Fatal(restoreErr)
		}
		if !errors.Is(err, syscall.EFBIG) || same != nil {
			t.Errorf("on a full disk: got error %v, and %v, want EFBIG and the files before", err, same)
		}
		if text := r.failure(pod, "tls"); strings.Contains(text, "22222222") {
			t.Errorf("error: got %s, want no object data", text)
		}
		began := time.Now()
		r.eventuallyHas(pod, "tls", "k", large)
		if took := time.Since(began); took > maxRetry {
			t.Errorf("with room again: written after %v, want it within %v", took, maxRetry)
		}
	})
}
