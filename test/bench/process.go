// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/refwatch/refwatch/test/bench/worker"
)

// endTimeout is how long a worker may take to end after its input has.
const endTimeout = 5 * time.Second

// process is a worker, as the driver sees it.
type process struct {
	cmd       *exec.Cmd
	input     io.WriteCloser
	responses chan worker.Response // closed when the worker's output ends
	log       tail
}

// startProcess starts a worker, which ends with ctx, with [process.close], or with this process.
func startProcess(ctx context.Context) (*process, error) {
	path, err := executable()
	if err != nil {
		return nil, err
	}
	p := &process{responses: make(chan worker.Response)}
	p.cmd = exec.CommandContext(ctx, path, workerCommand)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt at the terminal is the driver's
	p.cmd.Stderr = &p.log
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("making a worker's input: %w", err)
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("making a worker's output: %w", err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a worker: %w", err)
	}
	go func() {
		defer close(p.responses)
		for decoder := json.NewDecoder(output); ; {
			var response worker.Response
			if decoder.Decode(&response) != nil {
				return
			}
			p.responses <- response
		}
	}()
	return p, nil
}

// close ends the worker and waits for it.
func (p *process) close() {
	_ = p.input.Close() // the worker's sign to end
	kill := time.AfterFunc(endTimeout, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	for range p.responses { // one that nobody has waited for
	}
	_ = p.cmd.Wait() // however it ended
}

// call sends a request and returns its result. One at a time.
func call[R any](ctx context.Context, p *process, op string, args any) (result R, err error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return result, fmt.Errorf("%s: %w", op, err)
	}
	if err := json.NewEncoder(p.input).Encode(worker.Request{Op: op, Args: raw}); err != nil {
		return result, fmt.Errorf("%s: the worker does not read: %w\n%s", op, err, p.log.text())
	}
	select {
	case response, ok := <-p.responses:
		switch {
		case !ok:
			return result, fmt.Errorf("%s: the worker has ended\n%s", op, p.log.text())
		case response.Error != "":
			return result, fmt.Errorf("%s: %s\n%s", op, response.Error, p.log.text())
		}
		if err := json.Unmarshal(response.Result, &result); err != nil {
			return result, fmt.Errorf("%s: reading the result: %w", op, err)
		}
		return result, nil
	case <-ctx.Done():
		return result, ctx.Err()
	}
}

// do is call without a result.
func do(ctx context.Context, p *process, op string, args any) error {
	_, err := call[struct{}](ctx, p, op, args)
	return err
}

// tailBytes is how much of a worker's log an error tells.
const tailBytes = 4096

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	last []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	if excess := len(t.last) - tailBytes; excess > 0 {
		t.last = append(t.last[:0], t.last[excess:]...)
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.last)
}
