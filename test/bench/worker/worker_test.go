// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/test/bench/workload"
)

// ask has a worker answer lines.
func ask(t *testing.T, lines string) []Response {
	t.Helper()
	input, output := io.Pipe()
	done := make(chan error, 1)
	answers, answer := io.Pipe()
	go func() {
		done <- Run(t.Context(), input, answer)
		_ = answer.Close()
	}()
	decoder := json.NewDecoder(answers)
	var responses []Response
	for line := range strings.Lines(lines) {
		if _, err := io.WriteString(output, line); err != nil {
			t.Fatal(err)
		}
		var response Response
		if err := decoder.Decode(&response); err != nil {
			t.Fatal(err)
		}
		responses = append(responses, response)
	}
	_ = output.Close() // the worker's end
	if err := <-done; err != nil {
		t.Errorf("Run after the end of its input: got %v, want nil", err)
	}
	return responses
}

func TestRun(t *testing.T) {
	responses := ask(t, `{"op":"nonsense"}
{"op":"start","args":{"contender":"nobody"}}
{"op":"start","args":7}
{"op":"cpu"}
`)
	for i, want := range []string{`no request "nonsense"`, `no contender "nobody"`, "reading the arguments"} {
		if !strings.Contains(responses[i].Error, want) {
			t.Errorf("error %d: got %q, want one with %q", i, responses[i].Error, want)
		}
	}
	var seconds float64
	if err := json.Unmarshal(responses[3].Result, &seconds); err != nil || seconds <= 0 {
		t.Errorf("CPU time: got %v, %v; want some", seconds, err)
	}
}

func TestRunBrokenInput(t *testing.T) {
	if err := Run(t.Context(), strings.NewReader("{]"), io.Discard); err == nil || !strings.Contains(err.Error(), "reading a request") {
		t.Errorf("Run with broken input: got %v, want an error that says so", err)
	}
}

func TestRegister(t *testing.T) {
	for contender, want := range map[string]bool{"refwatch": true, "kubelet": true, "floor": false} {
		registered, err := (&worker{}).register(t.Context(), RegisterArgs{Contender: contender, Count: 10})
		if err != nil {
			t.Fatal(err)
		}
		if (registered.OverNothing != nil) != want || (registered.OverIdleStore != nil) != want {
			t.Errorf("%s: got costs %v and %v, want them: %t", contender, registered.OverNothing, registered.OverIdleStore, want)
		}
	}
}

func TestMeasure(t *testing.T) {
	var offsets []int
	calls := 0
	cost, err := measure(1, 1000, func(offset, count int) error {
		offsets = append(offsets, offset)
		calls += count
		return nil
	})
	if err != nil || calls != 1000 || !slices.Equal(offsets, []int{0}) || cost.Nanoseconds <= 0 {
		t.Errorf("one goroutine: got %+v, %v after %d calls from %v; want 1000 from 0", cost, err, calls, offsets)
	}
	broken := errors.New("broken")
	if _, err := measure(2, 10, func(int, int) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("error of a call: got %v, want %v", err, broken)
	}
}

func TestChangesTellOnce(t *testing.T) {
	set := workload.NewSet("test", 2)
	wanted := set.Secret(workload.Name(0), 5)
	var c changes
	c.arrived(wanted) // nobody waits
	expected := &expectation{wanted.Name, workload.ValueOf(wanted), make(chan time.Time, 1)}
	c.expected.Store(expected)
	for _, other := range []*corev1.Secret{set.Secret(workload.Name(1), 5), set.Secret(workload.Name(0), 4)} {
		if c.arrived(other); len(expected.seen) != 0 {
			t.Errorf("after another state: got a time, want none")
		}
	}
	c.arrived(wanted)
	c.arrived(wanted) // as after a stream that began anew
	if len(expected.seen) != 1 {
		t.Errorf("after the state twice: got %d times, want 1", len(expected.seen))
	}
}
