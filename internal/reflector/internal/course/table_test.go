// SPDX-License-Identifier: Apache-2.0

package course_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/course"
)

// verbTable returns the table of verbs: for each set of them that fail, but those that leave none that reads, and for
// each way of it, what becomes of a small object that is alone.
func verbTable() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(table, "fail")
	ways := []string{"unknown", "refused", "failing", "throttled", "broken", "hangs"}
	for _, way := range ways {
		_, _ = fmt.Fprint(table, "\t", way)
	}
	names := []string{"WatchList", "list", "watch", "GET"}
	for set := 1; set < 1<<len(names); set++ {
		if set&0b1011 == 0b1011 {
			continue // nothing reads
		}
		var failing []string
		for i, name := range names {
			if set&(1<<i) != 0 {
				failing = append(failing, name)
			}
		}
		_, _ = fmt.Fprint(table, "\n", strings.Join(failing, ", "))
		for _, way := range ways {
			_, _ = fmt.Fprint(table, "\t", cell(set, way))
		}
	}
	_, _ = fmt.Fprintln(table)
	_ = table.Flush()
	return text.String()
}

func cell(set int, way string) string {
	a := well
	for i, answer := range []*string{&a.watchList, &a.list, &a.watch, &a.get} {
		if set&(1<<i) != 0 {
			*answer = way
		}
	}
	w := newVerbWorld(course.AlsoGets)
	v := w.of("a")
	l, err := live(w, v, a, false, false, "alone", rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		return err.Error()
	}
	how := "streams"
	if v.Polled() != nil {
		how = "polled"
	}
	return fmt.Sprintf("%s, %v, %.0f/h", how, l.stale.Round(time.Second), l.requests)
}
