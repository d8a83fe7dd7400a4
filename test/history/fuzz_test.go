// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/test/history"
)

// ops are all operations, and one that does not exist.
var ops = []history.Op{
	history.BeginWrite, history.EndWrite, history.Written, history.Snapshotted, history.RolledBack,
	history.BeginReference, history.EndReference, history.BeginRelease, history.EndRelease,
	history.BeginGet, history.EndGet, history.BeginRange, history.Yielded, history.EndRange,
	history.Requested, history.Responded, history.StreamOpened, history.StreamClosed, history.Foreign, history.Dialed,
	history.FaultBegan, history.FaultEnded, history.Run, "unknown",
}

// bases are times from which events are counted, among them such that a file may have by mistake.
var bases = []time.Time{
	time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), {}, time.Unix(0, 0).UTC(), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
}

// eventsOf returns events made of bytes, in any order. Six bytes make one.
func eventsOf(b []byte) []history.Event {
	now := bases[0]
	events := []history.Event{{Time: now, Op: history.Run, Writes: len(b)%3 > 0}}
	for ; len(b) >= 6; b = b[6:] {
		switch jump := b[5]; {
		case jump > 250:
			now = bases[int(jump)%len(bases)]
		case jump > 240:
			now = now.Add(-time.Duration(jump) * time.Second)
		default:
			now = now.Add(time.Duration(jump) * 50 * time.Millisecond)
		}
		e := history.Event{
			Time: now, Op: ops[int(b[0])%len(ops)], Call: uint64(b[1] % 8), Object: []string{"secrets/default/x", "y", ""}[b[2]%3],
			Deleted: b[3]%7 == 0, Failed: b[3]%11 == 0, Error: []string{"", "", "", history.NotFound, history.NotSynced, history.NotRegistered, history.Canceled, "odd"}[b[3]>>5],
			Owner: []string{"", "pod"}[b[2]>>7], Verb: []string{"watch", "list", "get", ""}[b[3]%4], Code: []int{0, 200, 429, 500}[b[4]%4],
			Writes: b[4] > 128,
		}
		if e.Error == "" && b[3]%3 > 0 {
			e.State = history.State{
				UID: types.UID([]string{"uid", "recreated"}[b[4]>>7]), Version: fmt.Sprint(100 + int(b[4]%16)),
				Digest: fmt.Sprint("digest ", b[4]%16), Immutable: b[4]>>5 == 7,
			}
		}
		if b[3] > 128 {
			e.Objects = []string{"secrets/default/x"}
			e.Within = &metav1.Duration{Duration: time.Duration(b[4]) * time.Second}
		}
		if b[4]%5 < 2 {
			e.Works = &history.Works{Fresh: metav1.Duration{Duration: time.Duration(b[4]%32) * time.Second}}
			e.Works.Answered, e.Works.After = e.Works.Fresh, *cmp.Or(e.Within, &metav1.Duration{})
		}
		events = append(events, e)
	}
	return events
}

// FuzzChecker checks any events. The checker never panics, counts each, and finds the same in the file.
func FuzzChecker(f *testing.F) {
	for i := range byte(len(ops)) {
		f.Add(bytes.Repeat([]byte{i, 1, 0, 1, 1, 200, i + 1, 1, 0, 1, 1, 20}, 3))
		f.Add([]byte{5, 2, 0, 1, 1, 1, 6, 2, 0, 1, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 9, i, 0, 1, 1, 255 - i, 10, i, 0, 1, i, 90, i, 3, 0, i, i, i})
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		events := eventsOf(b[:min(len(b), 600)])
		checker, file := history.NewChecker(limits), &bytes.Buffer{}
		encoder := json.NewEncoder(file)
		for _, e := range events {
			checker.Add(e)
			if err := encoder.Encode(e); err != nil {
				t.Fatal(err)
			}
		}
		report := checker.Finish(events[len(events)-1].Time)
		again, err := history.Check(file, limits)
		if err != nil {
			t.Fatalf("Check: got %v, want no error", err)
		}
		if report.Events != int64(len(events)) || report.Checked > report.Events || report.Count < len(report.Violations) {
			t.Errorf("got %d events, %d states and %d violations (%d) of %d events", report.Events, report.Checked, report.Count, len(report.Violations), len(events))
		}
		if report.Count != again.Count || report.Events != again.Events || report.Checked != again.Checked {
			t.Errorf("got %d violations of %d states, and %d of %d in the file", report.Count, report.Checked, again.Count, again.Checked)
		}
	})
}

// FuzzLines checks any file. Each line is checked, or the error names the first that is none.
func FuzzLines(f *testing.F) {
	run := `{"time":"2026-01-01T00:00:00Z","op":"run","writes":true}` + "\n"
	for _, line := range []string{
		"", "\n", "null\n", "{}\n", "[]\n", `{"op":"dialed"}` + "\n", run + `{"op":"endGet","call":18446744073709551615}` + "\n",
		run + `{"time":"0001-01-01T00:00:00Z","op":"requested","object":"x","verb":"list","code":500}` + "\n",
		run + `{"time":"2026-01-01T00:00:00Z","op":"faultBegan","within":"1e999s"}` + "\n", run + `{"op":"faultEnded","within":null` + "\n",
		run + `{"time":"2026-01-01T00:00:00Z","op":"faultBegan","call":1,"works":{"fresh":"-3m","answered":"5s","after":"1h"}}` + "\n",
		run + `{"time":"2026-01-01T00:00:01Z","op":"beginWrite","call":1,"object":"x","digest":"d"}` + "\n" +
			`{"time":"2026-01-01T00:00:01Z","op":"endWrite","call":1,"object":"x","version":"5"}` + "\n",
	} {
		f.Add([]byte(line))
		f.Add([]byte(run + line + line))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		report, err := history.Check(bytes.NewReader(b), limits)
		if err != nil {
			if want := fmt.Sprintf("line %d of the history", report.Events+1); !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %q, want the error to begin with %q", err, want)
			}
			return
		}
		var lines int64
		for decoder := json.NewDecoder(bytes.NewReader(b)); ; lines++ {
			var line json.RawMessage
			if decoder.Decode(&line) != nil {
				break
			}
		}
		if report.Events != lines {
			t.Errorf("got %d events in %d lines", report.Events, lines)
		}
	})
}
