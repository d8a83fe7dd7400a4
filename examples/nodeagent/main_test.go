// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// asProgram in the environment makes the test binary run as the program.
const asProgram = "REFWATCH_NODEAGENT_AS_PROGRAM"

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case "1":
		os.Exit(run())
	case "stuck":
		stuck()
	}
	// Tests run the command several times in one process, always with the default logging.
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1")) // never ends
}

// program returns a command that runs the program with arguments and its own temporary folder.
func program(t *testing.T, args ...string) (command *exec.Cmd, temp string) {
	t.Helper()
	temp = t.TempDir()
	command = exec.CommandContext(t.Context(), os.Args[0], args...)
	command.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+temp)
	return command, temp
}

// TestOnce runs the demo as a user does: status 0, every step printed, no files left.
func TestOnce(t *testing.T) {
	command, temp := program(t, "--once")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("nodeagent --once: got error %v, want none; it printed:\n%s", err, out)
	}
	for _, want := range []string{"API server  https://127.0.0.1:", `(secret "tls" v`, "All 9 steps succeeded"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("output: got no %q in:\n%s", want, out)
		}
	}
	if bytes.Contains(out, []byte("FAILED")) {
		t.Errorf("output: got FAILED in:\n%s", out)
	}
	if left, err := filepath.Glob(filepath.Join(temp, "*")); err != nil || len(left) != 0 {
		t.Errorf("temporary folder: got %v and error %v, want it empty", left, err)
	}
}

// TestSignals: after the demo's steps the program runs until a signal ends it, with status 0.
func TestSignals(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			command, temp := program(t)
			out, err := command.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			command.Stderr = &stderr
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			read := readUntil(out, "Changes of volumes")
			if err := command.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			rest, _ := io.ReadAll(out)
			if err := command.Wait(); err != nil {
				t.Errorf("exit: got error %v, want status 0; it printed:\n%s%s%s", err, read, rest, &stderr)
			}
			if left, err := filepath.Glob(filepath.Join(temp, "*")); err != nil || len(left) != 0 {
				t.Errorf("temporary folder: got %v and error %v, want it empty", left, err)
			}
		})
	}
}

// stuck is a program that ignores the end of its context.
func stuck() {
	ctx, stop := signalContext()
	defer stop()
	fmt.Println("running")
	<-ctx.Done()
	fmt.Println("got a signal")
	select {}
}

// TestSecondSignalKills: a signal after the first one ends a program that does not end by itself.
func TestSecondSignalKills(t *testing.T) {
	command, _ := program(t)
	command.Env = append(command.Env, asProgram+"=stuck")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	readUntil(out, "running")
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	readUntil(out, "got a signal")
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case err = <-ended:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
				t.Errorf("end: got %v, want that SIGTERM has killed the program", err)
			}
			return
		case <-ticker.C: // the first of these signals may come before the context's goroutine has run
			_ = command.Process.Signal(syscall.SIGTERM)
		}
	}
}

// TestExitStatus: bad input ends the program with status 1 and an error, without the usage.
func TestExitStatus(t *testing.T) {
	command, _ := program(t, "--kubeconfig=/no/such/file", "--node-name=n", "--root-dir="+t.TempDir())
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("exit: got %v, want status 1", err)
	}
	if !bytes.Contains(out, []byte("Error: the kubeconfig cannot be read")) || bytes.Contains(out, []byte("Usage")) {
		t.Errorf("output: got %q, want the error and no usage", out)
	}
}

// readUntil reads up to the first line that contains text, and returns what it read.
func readUntil(r io.Reader, text string) string {
	var read strings.Builder
	lines := bufio.NewReader(r)
	for !strings.Contains(read.String(), text) {
		line, err := lines.ReadString('\n')
		read.WriteString(line)
		if err != nil {
			break
		}
	}
	return read.String()
}
