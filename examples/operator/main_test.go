// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/refwatch/refwatch/test/network"
)

// asProgram in the environment makes the test binary run as the program.
const asProgram = "REFWATCH_OPERATOR_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run())
	}
	goleak.VerifyTestMain(m)
}

// program returns a command that runs the program with arguments and its own temporary folder.
func program(t *testing.T, args ...string) (command *exec.Cmd, temp string) {
	t.Helper()
	temp = t.TempDir()
	command = exec.CommandContext(t.Context(), os.Args[0], args...)
	command.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+temp)
	return command, temp
}

// TestUnknownFlag: a wrong flag is one line, which names the help, and not the help itself.
func TestUnknownFlag(t *testing.T) {
	command, _ := program(t, "--none")
	out, err := command.CombinedOutput()
	if want := "Error: unknown flag: --none; see --help\n"; err == nil || string(out) != want {
		t.Errorf("output: got %q and error %v, want %q and status 1", out, err, want)
	}
}

// TestOnce runs the demo as a user does: status 0, every step printed, no files left.
func TestOnce(t *testing.T) {
	command, temp := program(t, "--once")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("operator --once: got error %v, want none; it printed:\n%s", err, out)
	}
	for _, want := range []string{"API server  https://127.0.0.1:", `Site bank: Ready=True`, "All 7 steps succeeded"} {
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
			read := readUntil(out, "Changes of Sites")
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

// TestMetrics: the operator serves its metrics and the debug page at --metrics-bind-address.
func TestMetrics(t *testing.T) {
	address, err := network.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	command, _ := program(t, "--metrics-bind-address="+address)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if read := readUntil(out, "Changes of Sites"); !strings.Contains(read, "Debug page  http://"+address) {
		t.Errorf("output: got no address of the debug page in:\n%s", read)
	}
	for path, want := range map[string]string{
		"/metrics":                    `refwatch_objects{phase="Serving",resource="secrets",store="secrets"} `,
		"/debug/refwatch?format=json": `"name":"shop-tls"`,
	} {
		if got := getBody(t, "http://"+address+path); !strings.Contains(got, want) {
			t.Errorf("%s: got no %s in:\n%s", path, want, got)
		}
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	if err := command.Wait(); err != nil {
		t.Errorf("exit: got error %v, want status 0", err)
	}
}

func getBody(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestInterruptedDemo: the status is not 0 if a signal ends the program before the last step.
func TestInterruptedDemo(t *testing.T) {
	command, _ := program(t, "--once")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	readUntil(out, "API server")
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(out)
	if err := command.Wait(); err == nil && !strings.Contains(string(rest), "All 7 steps") {
		t.Errorf("exit: got status 0 before the last step, want another; it printed:\n%s", rest)
	}
}

// TestExitStatus: bad input ends the program with status 1 and an error, without the usage.
func TestExitStatus(t *testing.T) {
	command, _ := program(t, "--kubeconfig=/no/such/file")
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("exit: got %v, want status 1", err)
	}
	if !bytes.Contains(out, []byte("Error: --kubeconfig cannot be read")) || bytes.Contains(out, []byte("Usage")) {
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
