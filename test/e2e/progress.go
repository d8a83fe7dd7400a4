// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// progressInterval is the time between two lines of progress.
const progressInterval = 5 * time.Second

// progress collects the output of "go build -v": a line per compiled package and per downloaded module.
type progress struct {
	mu    sync.Mutex
	lines []string
	rest  string // the incomplete last line
}

// Write implements [io.Writer]. It never fails.
func (p *progress) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := strings.Split(p.rest+string(data), "\n")
	p.rest = lines[len(lines)-1]
	p.lines = append(p.lines, lines[:len(lines)-1]...)
	return len(data), nil
}

// String returns the number of steps done and the last one.
func (p *progress) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lines) == 0 {
		return "starting"
	}
	return fmt.Sprintf("%d steps done, now %s", len(p.lines), p.lines[len(p.lines)-1])
}

func (p *progress) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return lastLines(strings.Join(p.lines, "\n") + "\n" + p.rest)
}

// runWithProgress runs a build of what, and writes its progress to log. The error has the last lines of its output.
func runWithProgress(cmd *exec.Cmd, log io.Writer, what string) error {
	output := &progress{}
	cmd.Stdout, cmd.Stderr = output, output
	logf(log, "building %s, which takes minutes the first time", what)
	start := time.Now()
	elapsed := func() time.Duration { return time.Since(start).Round(time.Second) }
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("building %s: %w", what, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			logf(log, "building (%v): %v", elapsed(), output)
		case err := <-ended:
			if err != nil {
				return fmt.Errorf("building %s: %w\n%s", what, err, output.tail())
			}
			logf(log, "built %s in %v", what, elapsed())
			return nil
		}
	}
}
