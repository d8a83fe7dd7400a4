// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/reflector"
)

// linesOf returns the lines of a log about outages, without their heads.
func linesOf(log string) (lines []string) {
	for line := range strings.Lines(log) {
		if _, text, _ := strings.Cut(line, "] "); strings.HasPrefix(text, `"Outage`) {
			lines = append(lines, strings.TrimSpace(text))
		}
	}
	return lines
}

// The log has a line at level 0 for the begin of an outage, with the cause, and one for its end, whatever the server
// does, and however few reflectors there are.
func TestOutagesAreLogged(t *testing.T) {
	const began = `"Outage began, one request at a time will try" gate="cluster" `
	const ended = `"Outage ended" gate="cluster" `
	tests := map[string]struct {
		away behavior
		want []string // patterns
	}{
		"no connection": {failing(errDown), []string{
			began + `err="no reflector reaches the server: .*refused"`, ended + `lasted="(2m5|3m)[0-9.ms]*"`,
		}},
		"5xx": {failing(unreadable()), []string{
			began + `resource="secrets" err="no object of this resource can be read: .*"`, ended + `resource="secrets" lasted=".*"`,
		}},
		"401": {failing(unauthorized()), []string{ // of the only resource, and so of the server
			began + `resource="secrets" err=.*`, began + `err="the token has expired"`, ended + `lasted=.*`, ended + `resource=.*`,
		}},
		"hanging": {hanging, []string{
			began + `resource="secrets" err="no object of this resource can be read: the server does not answer"`,
			ended + `resource="secrets" lasted=".*"`,
		}},
	}
	for name, test := range tests {
		for _, number := range []int{1, 100} {
			t.Run(name, func(t *testing.T) {
				log := logged(t, "0", func() {
					synctest.Test(t, func(t *testing.T) {
						c := newCrowd(t, reflector.GateOptions{Name: "cluster"}, healthy)
						c.add(number, "secrets")
						after(time.Minute)
						c.serveAll(test.away)
						c.cutAll(nil)
						after(3 * time.Minute)
						c.serveAll(healthy)
						after(2 * time.Minute)
					})
				})
				matches := func(line, pattern string) bool { return regexp.MustCompile("^" + pattern + "$").MatchString(line) }
				if got := linesOf(log); !slices.EqualFunc(got, test.want, matches) {
					t.Errorf("%d reflectors: got\n%s\nwant %q", number, strings.Join(got, "\n"), test.want)
				}
			})
		}
	}
}

// The lines at level 0 are bounded, however many resources have an outage. An end has the level of its begin.
func TestLinesAboutOutagesAreBounded(t *testing.T) {
	for level, want := range map[string]int{"0": 10, "2": 100} {
		log := logged(t, level, func() {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, reflector.GateOptions{}, healthy)
				for i := range 400 {
					c.add(1, fmt.Sprint("resource-", i%100))
				}
				after(time.Minute)
				c.serveAll(failing(unreadable()))
				c.cutAll(nil)
				after(5 * time.Second)
				c.serveAll(healthy)
				after(time.Minute)
			})
		})
		if got := strings.Count(log, "Outage began"); got != want {
			t.Errorf("level %s: got %d begins, want %d", level, got, want)
		}
		if got := strings.Count(log, "Outage ended"); got != want {
			t.Errorf("level %s: got %d ends, want %d", level, got, want)
		}
	}
}
