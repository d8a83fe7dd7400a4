// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is a front end that runs as a process of its own, and ends with the test.
type program struct {
	*testing.T
	process *os.Process

	mu      sync.Mutex
	log     []string      // lines of its stderr
	changed chan struct{} // closed at the next line, and at the end
	ended   bool
}

// startProgram starts a program that is in PATH or in /usr/sbin. Its log is what it writes to stderr, and what it
// reports to systemd.
func startProgram(t *testing.T, name string, args ...string) *program {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	if err != nil {
		t.Fatalf("%s is not installed: run make interop as root on Debian, or apt-get install %s", name, name)
	}
	notices, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"}) // an abstract name that is free
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(path, args...)
	command.Env = append(os.Environ(), "NOTIFY_SOCKET="+notices.LocalAddr().String())
	stderr, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p := &program{T: t, process: command.Process, changed: make(chan struct{})}
	var reading, notified sync.WaitGroup
	reading.Go(func() { p.read(stderr) })
	notified.Go(func() { p.readNotices(notices) })
	t.Cleanup(func() {
		p.signal(syscall.SIGTERM)
		kill := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
		reading.Wait()
		_ = command.Wait()
		kill.Stop()
		_ = notices.Close()
		notified.Wait()
		if t.Failed() {
			t.Logf("%s logged:\n%s", name, strings.Join(p.log, "\n"))
		}
	})
	return p
}

func (p *program) read(stderr io.Reader) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		p.add(lines.Text(), false)
	}
	p.add("(end)", true)
}

// readNotices reads messages as sd_notify(3) describes them.
func (p *program) readNotices(notices net.Conn) {
	message := make([]byte, 4<<10)
	for {
		n, err := notices.Read(message)
		if err != nil {
			return
		}
		for _, line := range strings.Split(strings.TrimSpace(string(message[:n])), "\n") {
			p.add(line, false)
		}
	}
}

func (p *program) add(line string, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, line)
	p.ended = p.ended || ended
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *program) signal(s os.Signal) {
	if err := p.process.Signal(s); err != nil {
		p.Error(err)
	}
}

// logged returns how many lines of the log contain part, a channel that is closed at the next line, and whether the
// program has ended.
func (p *program) logged(part string) (n int, changed <-chan struct{}, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.log {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n, p.changed, p.ended
}

// wait waits until n lines of the log contain part.
func (p *program) wait(part string, n int) {
	p.Helper()
	timeout := time.After(patience)
	for {
		got, changed, ended := p.logged(part)
		switch {
		case got >= n:
			return
		case ended:
			p.Fatalf("the program ended before it logged %q %d times", part, n)
		}
		select {
		case <-changed:
		case <-timeout:
			p.Fatalf("lines with %q in %v: got %d, want %d", part, patience, got, n)
		}
	}
}
