// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/refwatch/refwatch/test/apiserver"
)

// running is the program as a daemon, with its log in JSON.
type running struct {
	*testing.T

	signal func(os.Signal) error
	log    *bufio.Reader
	seen   strings.Builder // the log so far
	url    string          // of its pages
}

// startDaemon starts the program with a configuration file, and waits until it serves its pages. It returns the program
// and a function that waits for its end.
func startDaemon(t *testing.T, file string, args ...string) (r *running, wait func() error) {
	t.Helper()
	command, _ := program(t, append([]string{"--config=" + file}, args...)...)
	reader, writer := io.Pipe()
	command.Stdout, command.Stderr = writer, writer
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait(); _ = writer.Close() }()
	r = &running{T: t, signal: command.Process.Signal, log: bufio.NewReader(reader)}
	r.url = r.logged("Serving health checks, metrics and debug pages")["url"].(string)
	return r, func() error {
		_, _ = io.Copy(&r.seen, r.log)
		return <-ended
	}
}

// logged reads the log up to the first line with a message, and returns the line.
func (r *running) logged(message string) map[string]any {
	r.Helper()
	for {
		line, err := r.log.ReadString('\n')
		r.seen.WriteString(line)
		if err != nil {
			r.Fatalf("log: got no %q in:\n%s", message, &r.seen)
		}
		if strings.Contains(line, "Data race detection enabled") {
			continue // component-base logs it before the format is set
		}
		var values map[string]any
		if err := json.Unmarshal([]byte(line), &values); err != nil {
			r.Fatalf("log: got a line that is not JSON: %s", line)
		}
		if values["msg"] == message {
			return values
		}
	}
}

// get returns the status and the body of a page.
func (r *running) get(path string) (code int, body string) {
	r.Helper()
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, r.url+path, nil)
	if err != nil {
		r.Fatal(err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // read to its end
	data, err := io.ReadAll(response.Body)
	if err != nil {
		r.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// waitReady polls until the agent is ready.
func (r *running) waitReady() {
	r.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		code, body := r.get("/readyz")
		if code == http.StatusOK {
			return
		}
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			r.Fatalf("readyz: got %s, want ok", body)
		}
	}
}

// TestDaemon runs the program with a configuration file, requests its pages, reloads the file, and ends the program.
func TestDaemon(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	file := filepath.Join(t.TempDir(), "config.yaml")
	write := func(more string) {
		t.Helper()
		content := header + "kubeconfig: " + c.kubeconfig + "\nnodeName: other\nrootDir: " + c.root + "\nlogging: {format: json}\n" + more
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("bindAddress: 127.0.0.1:0\n")
	r, wait := startDaemon(t, file, "--node-name=n", "-v=2")
	r.waitReady()
	c.check(t)

	for path, want := range map[string]string{
		"/healthz":                     "ok",
		"/readyz":                      "ok",
		"/metrics":                     `refwatch_objects{`,
		"/metrics?&&":                  `refwatch_gate_window{gate="server"} `,
		"/metrics?":                    `workqueue_adds_total{name="pods"} `,
		"/metrics?&":                   `rest_client_requests_total{`,
		"/statusz":                     "Paths: /debug/refwatch /flagz /healthz /metrics /readyz /statusz\n",
		"/flagz":                       "\nnode-name=n\n",
		"/debug/refwatch":              "<html",
		"/debug/refwatch?format=json":  `"name":"db"`,
		"/debug/refwatch?format=json&": `"address":"127.0.0.1:`,
	} {
		if code, body := r.get(path); code != http.StatusOK || !strings.Contains(body, want) || strings.Contains(body, canary) {
			t.Errorf("GET %s: got status %d and %q, want %q and no data of the Secret", path, code, body, want)
		}
	}

	r.checkReload(write)

	if err := r.signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := wait(); err != nil {
		t.Errorf("exit: got error %v, want status 0; it printed:\n%s", err, &r.seen)
	}
	if got := strings.Count(r.seen.String(), `"msg":"Stopping"`); got != 1 {
		t.Errorf("log after SIGTERM: got %d lines \"Stopping\", want 1; it printed:\n%s", got, &r.seen)
	}
	c.check(t)
}

// checkReload changes the file in several ways. -v is a flag, which overrides the file.
func (r *running) checkReload(write func(more string)) {
	r.Helper()
	reload := func(more, message string) map[string]any {
		r.Helper()
		write(more)
		if err := r.signal(syscall.SIGHUP); err != nil {
			r.Fatal(err)
		}
		return r.logged(message)
	}
	const reloaded, refused = "Reloaded the configuration", "Cannot reload the configuration: the one before stays in use"
	for more, want := range map[string]string{
		"bindAdress: x\n": `unknown field "bindAdress"`, "bindAddress: x\n": "bindAddress: Invalid value",
	} {
		if line := reload(more, refused); !strings.Contains(line["err"].(string), want) {
			r.Errorf("log after a mistake: got %v, want %q", line, want)
		}
	}
	line := reload("bindAddress: \"0\"\nfeatureGates: {ImmutableEphemeralVolumes: false}\n", reloaded)
	if got := line["needsRestart"]; len(got.([]any)) != 2 {
		r.Errorf("needsRestart: got %v, want bindAddress and featureGates", got)
	}
	if _, flags := r.get("/flagz"); !strings.Contains(flags, "bind-address=127.0.0.1:0\n") {
		r.Errorf("flagz: got %s, want the values in use", flags)
	}
}

// TestReloadVerbosity: a reload changes the verbosity of the log.
func TestReloadVerbosity(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	file := filepath.Join(t.TempDir(), "config.yaml")
	write := func(verbosity string) {
		t.Helper()
		content := header + "kubeconfig: " + c.kubeconfig + "\nnodeName: \"n\"\nrootDir: " + c.root +
			"\nbindAddress: 127.0.0.1:0\nlogging: {format: json, verbosity: " + verbosity + "}\n"
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("0")
	r, wait := startDaemon(t, file)
	waitForFile(t, c.file, nil)
	write("4")
	if err := r.signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if got := r.logged("Reloaded the configuration"); len(got["changed"].([]any)) != 1 || len(got["needsRestart"].([]any)) != 0 {
		t.Errorf("reload: got %v, want that logging has changed, without a restart", got)
	}
	if err := r.signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if got := r.logged("Reloaded the configuration: nothing changed"); got["changed"] != nil || got["needsRestart"] != nil {
		t.Errorf("reload without a change: got %v, want no lists", got)
	}
	if _, flags := r.get("/flagz"); !strings.Contains(flags, "\nv=4\n") {
		t.Errorf("flagz: got %s, want v=4", flags)
	}
	if err := r.signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := wait(); err != nil {
		t.Errorf("exit: got error %v, want status 0; it printed:\n%s", err, &r.seen)
	}
	// At its end, at the latest, the agent logs that it stops watching the Secret.
	if !strings.Contains(r.seen.String(), `"v":4`) {
		t.Errorf("log after the reload: got no line of verbosity 4 in:\n%s", &r.seen)
	}
}

// TestAddressInUse: the program ends with an error if it cannot bind its address.
func TestAddressInUse(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(header+"logging: {format: json}\nbindAddress: 127.0.0.1:0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, wait := startDaemon(t, file, c.args()...)
	inUse := "--bind-address=" + strings.TrimPrefix(r.url, "http://")
	for name, args := range map[string][]string{"second agent": c.args(inUse), "demo": {inUse}} {
		command, _ := program(t, args...)
		command.Stdout, command.Stderr = nil, nil
		out, err := command.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "address already in use") || strings.Contains(string(out), "Starting to write") ||
			strings.Contains(string(out), "1. Three pods") {
			t.Errorf("%s: got error %v and %s, want at once that the address is in use", name, err, out)
		}
	}
	if err := r.signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := wait(); err != nil {
		t.Errorf("exit: got error %v, want status 0", err)
	}
}
