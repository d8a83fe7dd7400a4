// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// startTimeout is how long a process may take until it is ready. On an idle machine it takes three seconds.
	startTimeout = 2 * time.Minute
	// stopTimeout is how long a process may take to end after SIGTERM, before it is killed.
	stopTimeout = 10 * time.Second
	// readyInterval is the time between two checks whether a starting process is ready.
	readyInterval = 25 * time.Millisecond
)

// errNotRunning is returned by Pause and Resume if the process does not run.
var errNotRunning = errors.New("not running: start it with Restart")

// Process is one of the processes of a [Cluster]. It keeps its arguments, address and data across restarts.
type Process struct {
	name string // also of its files, NAME.log and NAME.pid
	dir  string // of its files
	path string
	args []string
	// ready returns nil once the process serves requests.
	ready func(context.Context) error

	// semaphore holds one token. A method that starts or stops the process takes it.
	semaphore chan struct{}

	mu       sync.Mutex
	extra    []string  // further arguments
	instance *instance // nil while the process does not run
}

// instance is a process of the operating system.
type instance struct {
	pid   int
	done  chan struct{} // closed once the process has been waited for
	state string        // the exit status; valid once done is closed
}

func newProcess(name, dir, path string, args []string, ready func(context.Context) error) *Process {
	p := &Process{name: name, dir: dir, path: path, args: args, ready: ready, semaphore: make(chan struct{}, 1)}
	p.semaphore <- struct{}{}
	return p
}

// PID returns the ID of the process, or 0 if it does not run. A restart changes it.
func (p *Process) PID() int {
	if i := p.current(); i != nil {
		return i.pid
	}
	return 0
}

// acquire waits for the semaphore.
func (p *Process) acquire() (release func()) {
	<-p.semaphore
	return func() { p.semaphore <- struct{}{} }
}

// Kill ends the process as kill -9 does, and returns when it has ended. A paused process is killed as well. Kill does
// nothing if the process does not run.
func (p *Process) Kill() {
	defer p.acquire()()
	p.kill()
}

// Pause stops the process with SIGSTOP: its connections stay open, and it does not answer. Pause returns when the
// process has stopped. It returns an error if the process does not run.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume continues a paused process. It returns an error if the process does not run.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

// Restart stops the process, if it runs, and starts it again. It stops it with SIGTERM, and kills it after ten seconds.
// To simulate a crash, call [Process.Kill] first.
//
// Restart returns when the process serves requests. An error has the last lines of the process's output.
func (p *Process) Restart(ctx context.Context) error {
	defer p.acquire()()
	p.stop(ctx)
	return p.start(ctx)
}

// SetArgs sets further arguments, which override those of the options. They apply from the next start on, until they
// are set again.
func (p *Process) SetArgs(args ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.extra = args
}

// allArgs returns the arguments for a start.
func (p *Process) allArgs() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Concat(p.args, p.extra)
}

// current returns the running instance, or nil.
func (p *Process) current() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.instance
}

func (p *Process) signal(signal syscall.Signal) error {
	i := p.current()
	if i == nil {
		return fmt.Errorf("%s: %w", p.name, errNotRunning)
	}
	// Signal the process, not its group: a child that stops between vfork and exec would keep its parent from stopping.
	if err := syscall.Kill(i.pid, signal); err != nil {
		return fmt.Errorf("%s: sending %v: %w", p.name, signal, err)
	}
	if signal == syscall.SIGSTOP {
		waitStopped(i.pid)
	}
	return nil
}

// stop stops the process with SIGTERM. Callers of stop, kill and start hold the semaphore.
func (p *Process) stop(ctx context.Context) {
	i := p.current()
	if i == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	_ = p.signal(syscall.SIGTERM)
	_ = p.signal(syscall.SIGCONT) // a paused process does not handle SIGTERM
	select {
	case <-i.done:
	case <-ctx.Done():
		p.kill()
	}
}

func (p *Process) kill() {
	i := p.current()
	if i == nil {
		return
	}
	_ = syscall.Kill(-i.pid, syscall.SIGKILL) // fails only if the process has ended
	<-i.done
}

// start starts the process and waits until it is ready. After an error the process does not run.
func (p *Process) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	i, err := p.launch(ctx)
	if err != nil {
		p.kill()
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	if err := p.waitReady(ctx, i); err != nil {
		p.kill()
		return fmt.Errorf("starting %s: %w\n%s", p.name, err, tail(p.file("log")))
	}
	return nil
}

// launch starts the process in its own process group, so that Ctrl-C at the terminal does not reach it: the test ends
// it.
func (p *Process) launch(ctx context.Context) (*instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(p.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has a copy
	cmd := exec.Command(p.path, p.allArgs()...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	i := &instance{pid: cmd.Process.Pid, done: make(chan struct{})}
	p.set(i)
	err = os.WriteFile(p.file("pid"), []byte(strconv.Itoa(i.pid)), 0o600) // for the guard
	go p.wait(cmd, i)
	return i, err
}

// wait waits until the instance has ended, and then closes done.
func (p *Process) wait(cmd *exec.Cmd, i *instance) {
	_ = cmd.Wait() // state has the same error
	i.state = cmd.ProcessState.String()
	_ = os.Remove(p.file("pid")) // before set, as the next instance writes this file
	p.set(nil)
	close(i.done)
}

func (p *Process) set(i *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.instance = i
}

func (p *Process) waitReady(ctx context.Context, i *instance) error {
	ticker := time.NewTicker(readyInterval)
	defer ticker.Stop()
	for {
		err := p.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-i.done:
			return fmt.Errorf("it ended before it was ready: %s", i.state)
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w: %w", ctx.Err(), err)
		case <-ticker.C:
		}
	}
}

func (p *Process) file(kind string) string { return filepath.Join(p.dir, p.name+"."+kind) }
