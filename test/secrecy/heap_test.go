// SPDX-License-Identifier: Apache-2.0

package secrecy_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/canary"
	"github.com/refwatch/refwatch/test/testmain"
)

// After the last reference to an object, and when its connections are closed, no part of
// a value is reachable in the memory of a program: neither of the last version nor of the
// one before. The garbage collector of the program overwrites what it frees (clobberfree),
// so that what is left in its heap is reachable. The program has no asynchronous
// preemption: where one interrupts a copy, the runtime keeps the vector registers, and 16
// bytes of a value with them, in memory of its own that a dump shows (runtime.xRegPerP).
func TestNoCopyAfterTheLastReference(t *testing.T) {
	testmain.Long(t)
	for mode := range modes {
		t.Run(mode, func(t *testing.T) {
			var canaries canary.Canaries
			p := startReader(t, mode)
			p.write(&canaries, 1)
			p.expect("referenced")
			if got := found(canaries.Find(p.dump("referenced"))); mode != "direct" && got != objects {
				t.Errorf("while referenced: got %d values in the heap, want all %d", got, objects)
			}
			if mode != "immutable" {
				p.write(&canaries, updatedLength/32)
			}
			p.expect("released")
			if err := p.server.WaitFor(t.Context(), func() bool { return p.server.TotalStreams() == 0 }); err != nil {
				t.Fatal(err)
			}
			t.Logf("with open connections: %v", canaries.Find(p.dump("released")))
			p.expect("closed")
			leaks := canaries.Find(p.dump("closed"))
			for modes[mode].netHTTP && len(leaks) > 0 && t.Context().Err() == nil {
				// A timer of the runtime still refers to the connection.
				p.expect("closed")
				leaks = canaries.Find(p.dump("closed"))
			}
			if mode == "leaking" && len(leaks) == 0 {
				t.Error("a reader that keeps a part of a value: got none in the heap, want it")
			}
			if mode != "leaking" && len(leaks) > 0 {
				t.Errorf("after the last reference: got %v, want nothing", leaks)
			}
			p.end()
			_, size := canaries.Searched()
			record(t, "bytes of heap searched for object data", size)
		})
	}
}

// found returns how many values are in leaks.
func found(leaks []canary.Leak) int {
	values := map[int]bool{}
	for _, leak := range leaks {
		values[leak.Value] = true
	}
	return len(values)
}

// readerProcess is a reader and its server.
type readerProcess struct {
	*testing.T

	server  *apiserver.Server
	folder  string
	mode    string
	command *exec.Cmd
	output  *bufio.Scanner
	input   *os.File
	started bool
}

func startReader(t *testing.T, mode string) *readerProcess {
	t.Helper()
	p := &readerProcess{T: t, mode: mode, server: apiserver.New(t, apiserver.Options{}), folder: t.TempDir()}
	if err := p.server.WriteKubeconfig(filepath.Join(p.folder, "kubeconfig")); err != nil {
		t.Fatal(err)
	}
	p.command = exec.CommandContext(t.Context(), os.Args[0])
	p.command.Env = append(os.Environ(), asReader+"="+mode, readerFolder+"="+p.folder, "GODEBUG=clobberfree=1,asyncpreemptoff=1", "HTTP2_READ_IDLE_TIMEOUT_SECONDS=1")
	return p
}

// write creates the Secrets, and starts the reader; or updates them. A value is n
// canaries.
func (p *readerProcess) write(canaries *canary.Canaries, n int) {
	p.Helper()
	secrets := p.server.Client().CoreV1().Secrets(namespace)
	for i := range objects {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: nameOf(i)}, Data: map[string][]byte{}}
		for range n {
			secret.Data["password"] = append(secret.Data["password"], canaries.New()...)
		}
		var err error
		if p.started {
			_, err = secrets.Update(p.Context(), secret, metav1.UpdateOptions{})
		} else {
			immutable := p.mode == "immutable"
			secret.Immutable = &immutable
			_, err = secrets.Create(p.Context(), secret, metav1.CreateOptions{})
		}
		if err != nil {
			p.Fatal(err)
		}
	}
	if p.started {
		return
	}
	p.started = true
	p.start()
}

func (p *readerProcess) start() {
	p.Helper()
	p.command.Stderr = &bytes.Buffer{}
	output, err := p.command.StdoutPipe()
	if err != nil {
		p.Fatal(err)
	}
	input, write, err := os.Pipe()
	if err != nil {
		p.Fatal(err)
	}
	p.command.Stdin, p.input, p.output = input, write, bufio.NewScanner(output)
	if err := p.command.Start(); err != nil {
		p.Fatal(err)
	}
	_ = input.Close()
	p.Cleanup(func() { _ = write.Close() })
}

// expect waits for a line of the reader.
func (p *readerProcess) expect(line string) {
	p.Helper()
	if !p.output.Scan() || p.output.Text() != line {
		p.Fatalf("reader: got %q, want %q; it wrote:\n%s", p.output.Text(), line, p.command.Stderr)
	}
}

// dump lets the reader write its heap, and returns it.
func (p *readerProcess) dump(name string) string {
	p.Helper()
	if _, err := p.input.WriteString("\n"); err != nil {
		p.Fatal(err)
	}
	p.expect("dumped")
	dump, err := os.ReadFile(filepath.Join(p.folder, name))
	if err != nil {
		p.Fatal(err)
	}
	return string(dump)
}

// end waits for the end of the reader.
func (p *readerProcess) end() {
	p.Helper()
	p.expect("closed")
	if _, err := p.input.WriteString("end\n"); err != nil {
		p.Fatal(err)
	}
	p.expect("dumped")
	if err := p.command.Wait(); err != nil {
		p.Errorf("reader: got %v, want success; it wrote:\n%s", err, p.command.Stderr)
	}
}
