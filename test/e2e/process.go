// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// bootTimeout is how long a process may take until it is ready. On an idle machine it takes three seconds.
	bootTimeout = 2 * time.Minute
	// stopTimeout is how long a process may take to end when it is asked to, before it is killed.
	stopTimeout = 10 * time.Second
	// readyInterval is the time between two questions whether a starting process is ready.
	readyInterval = 25 * time.Millisecond
)

// errNotRunning says that there is no process to pause or resume.
var errNotRunning = errors.New("not running: start it with Restart")

// Process is one of the processes of a [Cluster]. It keeps its arguments, its address and its data whatever
// happens to it.
type Process struct {
	name string // also that of its files: NAME.log, NAME.pid
	dir  string // where its files are
	path string
	args []string
	// ready returns nil once the process serves requests.
	ready func(context.Context) error

	// turn holds one token, for whoever starts or stops the process.
	turn chan struct{}

	mu  sync.Mutex
	run *run // nil while it does not run
}

// run is one life of a process.
type run struct {
	pid   int
	done  chan struct{} // closed once the process has been waited for
	state string        // how it ended; read it after done
}

func newProcess(name, dir, path string, args []string, ready func(context.Context) error) *Process {
	p := &Process{name: name, dir: dir, path: path, args: args, ready: ready, turn: make(chan struct{}, 1)}
	p.turn <- struct{}{}
	return p
}

// take waits for the turn, and returns what gives it back.
func (p *Process) take() (giveBack func()) {
	<-p.turn
	return func() { p.turn <- struct{}{} }
}

// Kill ends the process as kill -9 does. When it returns the process is gone. It may be paused, and need not run.
func (p *Process) Kill() {
	defer p.take()()
	p.kill()
}

// Pause stops the process as SIGSTOP does: its connections stay open, and nobody answers. When it returns the
// process stands still. The error says that it does not run.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on. The error says that it does not run.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

// Restart ends the process, if it runs, and starts it again. It is asked to end first, and killed if that takes
// more than ten seconds: for a crash, call [Process.Kill] before.
//
// It returns when the process serves requests, or with an error that tells what it wrote last.
func (p *Process) Restart(ctx context.Context) error {
	defer p.take()()
	p.stop(ctx)
	return p.start(ctx)
}

// current returns the life the process is in, or nil.
func (p *Process) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

func (p *Process) signal(signal syscall.Signal) error {
	run := p.current()
	if run == nil {
		return fmt.Errorf("%s: %w", p.name, errNotRunning)
	}
	// The process alone: stopped between vfork and exec, a child would keep its parent from stopping.
	if err := syscall.Kill(run.pid, signal); err != nil {
		return fmt.Errorf("%s: sending %v: %w", p.name, signal, err)
	}
	if signal == syscall.SIGSTOP {
		waitStopped(run.pid)
	}
	return nil
}

// stop lets the process end in order. Like kill and start it needs the turn.
func (p *Process) stop(ctx context.Context) {
	run := p.current()
	if run == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	_ = p.signal(syscall.SIGTERM)
	_ = p.signal(syscall.SIGCONT) // a paused process does not see the other one
	select {
	case <-run.done:
	case <-ctx.Done():
		p.kill()
	}
}

func (p *Process) kill() {
	run := p.current()
	if run == nil {
		return
	}
	_ = syscall.Kill(-run.pid, syscall.SIGKILL) // fails only if it is gone
	<-run.done
}

// start starts the process and waits until it is ready. On an error it does not run.
func (p *Process) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	run, err := p.launch(ctx)
	if err != nil {
		p.kill()
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	if err := p.waitReady(ctx, run); err != nil {
		p.kill()
		return fmt.Errorf("starting %s: %w\n%s", p.name, err, tail(p.file("log")))
	}
	return nil
}

// launch starts the process in a process group of its own, so that an interrupt at the terminal leaves it to the
// test to end it.
func (p *Process) launch(ctx context.Context) (*run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(p.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has a copy
	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	run := &run{pid: cmd.Process.Pid, done: make(chan struct{})}
	p.set(run)
	err = os.WriteFile(p.file("pid"), []byte(strconv.Itoa(run.pid)), 0o600) // for the guard
	go p.wait(cmd, run)
	return run, err
}

// wait notes the end of a life. Who ends the process waits for it, on done.
func (p *Process) wait(cmd *exec.Cmd, run *run) {
	_ = cmd.Wait() // the state below says the same
	run.state = cmd.ProcessState.String()
	_ = os.Remove(p.file("pid")) // first, since the next life writes it anew
	p.set(nil)
	close(run.done)
}

func (p *Process) set(run *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run = run
}

func (p *Process) waitReady(ctx context.Context, run *run) error {
	ticker := time.NewTicker(readyInterval)
	defer ticker.Stop()
	for {
		err := p.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-run.done:
			return fmt.Errorf("it ended before it was ready: %s", run.state)
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w: %w", ctx.Err(), err)
		case <-ticker.C:
		}
	}
}

func (p *Process) file(kind string) string { return filepath.Join(p.dir, p.name+"."+kind) }
