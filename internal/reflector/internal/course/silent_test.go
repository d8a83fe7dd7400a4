// SPDX-License-Identifier: Apache-2.0

package course_test

import (
	"github.com/cockroachdb/datadriven"

	"github.com/refwatch/refwatch/internal/reflector/internal/course"
	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// silent is a stream of the scripts.
type silent struct {
	course.Silence
	contact moment.Moment
}

// silence does a line of input that is about a stream.
func (w *world) silence(command, name string, args []datadriven.CmdArg) string {
	s := w.silent[name]
	switch command {
	case "opens":
		w.silent[name] = &silent{contact: w.now}
	case "brings":
		s.contact = w.now
	case "look":
		switch {
		case !s.Is(s.contact, w.now):
			return "is left alone\n"
		case w.lists.Fail(w.now):
			return "is replaced: lists fail\n"
		}
		s.Begin(s.contact, w.now)
		return "is compared\n"
	case "list":
		faults := map[string]course.Fault{"fails": course.Failing, "hangs": course.Hung, "unsent": course.NoFault}
		fault, works := faults[args[0].String()], args[0].String() == "works"
		mayWatchList := len(args) == 1
		w.lists.Add(works, fault, w.now)
		switch {
		case s.End(works, fault, w.lists.Fail(w.now), mayWatchList, w.now):
			return "is replaced\n"
		case works:
			s.contact = w.now
		}
		return "is kept\n"
	}
	return ""
}
