// SPDX-License-Identifier: Apache-2.0

package course_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"go.uber.org/goleak"

	"github.com/refwatch/refwatch/internal/reflector/internal/course"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The scripts in testdata are the rules of this package for people to read: a line of input, and below it what the
// machine does. go test -rewrite writes what it does now.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := &world{verbs: newVerbWorld(course.NoGets), seen: map[string]*course.Seen{}, silent: map[string]*silent{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return w.step(t, d) })
	})
}

// world is one gate, and reflectors that have names.
type world struct {
	*verbs

	restores course.Restores
	seen     map[string]*course.Seen

	lists  course.Lists
	silent map[string]*silent
}

// step does a line of input. It panics if that is wrong.
func (w *world) step(t *testing.T, d *datadriven.TestData) string {
	arg := func(i int) string { return d.CmdArgs[i].String() }
	if d.Cmd == "pass" {
		passed, err := time.ParseDuration(arg(0))
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		w.now = w.now.Add(passed)
		return ""
	}
	if d.Cmd == "table" {
		return verbTable()
	}
	if d.Cmd == "end" {
		return end(t, d)
	}
	if d.Cmd == "gets" { // another world
		w.verbs = newVerbWorld(course.AlsoGets)
		return ""
	}
	if d.Cmd == "attempt" {
		var words []string
		for _, arg := range d.CmdArgs[1:] {
			words = append(words, arg.String())
		}
		text, err := w.attempt(arg(0), words)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		return text
	}
	if d.Cmd == "opens" || d.Cmd == "brings" || d.Cmd == "look" || d.Cmd == "list" {
		return w.silence(d.Cmd, arg(0), d.CmdArgs[1:])
	}
	s := w.seen[arg(0)]
	if s == nil {
		s = &course.Seen{}
		w.seen[arg(0)] = s
	}
	switch d.Cmd {
	case "read": // asked for and answered
		return w.ask(s) + w.answer(arg(0), arg(1), true)
	case "ask":
		return w.ask(s)
	case "answer":
		return w.answer(arg(0), arg(1), true)
	case "refused":
		return w.ask(s) + w.answer(arg(0), arg(1), false)
	case "event":
		s.Event(arg(1))
		return fmt.Sprintf("has seen %s\n", s.Version())
	}
	d.Fatalf(t, "unknown command")
	return ""
}

func (w *world) ask(s *course.Seen) string {
	if s.Ask(w.restores.Count()) {
		return "must be consistent\n"
	}
	return "may be at a version\n"
}

// answer takes a complete read, which the store takes or not.
func (w *world) answer(name, version string, stored bool) string {
	var did []string
	s := w.seen[name]
	restored, proves := s.Read(version)
	if restored {
		did = append(did, "begins an epoch")
	}
	first := false
	if proves {
		var after uint64
		first, after = w.restores.Prove(s.After(), w.now)
		s.Proved(after)
	}
	if stored {
		s.Stored(version)
	}
	if first {
		did = append(did, "proves a restore to all")
		for _, other := range w.names() {
			if w.seen[other].MustRead(w.restores.Count()) {
				did = append(did, other+" must read")
			}
		}
	} else if s.MustRead(w.restores.Count()) {
		did = append(did, "must read again")
	}
	return strings.Join(append(did, "has seen "+cmp.Or(s.Version(), "nothing")), "; ") + "\n"
}

func (w *world) names() []string {
	names := make([]string, 0, len(w.seen))
	for name := range w.seen {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
