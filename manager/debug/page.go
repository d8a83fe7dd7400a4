// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/refwatch/refwatch/objectcache"
)

const (
	// maxRows is how many objects the page shows.
	maxRows = 500
	// maxOwners is how many owners of an object the page shows.
	maxOwners = 20
	// maxCauses is how many causes the page shows.
	maxCauses = 8
	// maxText is how many characters of an error the page shows.
	maxText = 1000
)

var (
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string

	// The hashes allow the page's own style and script, and nothing else.
	contentSecurityPolicy = "default-src 'none'; connect-src 'self'; img-src data:; style-src " + hashOf(pageCSS) +
		"; script-src " + hashOf(pageJS) + "; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// page is what view.go and rows.go show.
type page struct {
	Report
	Query     query
	Resources []string
	Phases    []count
	Total     int // objects before the filter
	Problems  int // of Total
	Unparked  int // of Total, whose stream is open and not parked
	Matching  int // objects after it; Report.Objects are the first maxRows
}

// count is how many objects are in a phase.
type count struct {
	Phase   objectcache.Phase
	Objects int
}

func newPage(options Options, q query, report Report, objects []*Object) page {
	p := page{Query: q, Resources: slices.Sorted(maps.Keys(options.Sources)), Total: len(objects)}
	counts := map[objectcache.Phase]int{}
	for _, object := range objects {
		counts[object.Phase]++
		if object.Problem != "" {
			p.Problems++
		}
		if isServed(object.Phase) && object.NotUpdatedSince.IsZero() && object.Stream == objectcache.StreamNamed && !object.Parked {
			p.Unparked++
		}
	}
	for _, phase := range phases {
		p.Phases = append(p.Phases, count{Phase: phase, Objects: counts[phase]})
	}
	objects = q.apply(objects)
	p.Matching = len(objects)
	for _, object := range objects[:min(maxRows, p.Matching)] {
		report.Objects = append(report.Objects, *object)
	}
	p.Report = report
	return p
}

// Link returns a link to the page with one part of the query changed.
func (p page) Link(name, value string) string { return p.Query.with(name, value) }

// column is the head of a column. Link is empty if it cannot be sorted.
type column struct {
	Title, Link, Direction string
}

// Column returns the head of a column. Its link sorts by the column, or reverses the
// order if the page is sorted by it.
func (p page) Column(title, sort string) column {
	current := p.Query.Sort
	if current == "" {
		current = "problem"
	}
	switch current {
	case sort:
		return column{title, p.Link("sort", "-"+sort), "ascending"}
	case "-" + sort:
		return column{title, p.Link("sort", sort), "descending"}
	}
	return column{title, p.Link("sort", sort), "none"}
}

// Columns returns the heads of all columns.
func (p page) Columns() []column {
	return []column{
		p.Column("Phase", "phase"), p.Column("Object", "name"), p.Column("Changed", "changed"), p.Column("Last contact", "age"),
		{Title: "Version"}, p.Column("Owners", "owners"), p.Column("Problem", "problem"),
	}
}

// longAge returns how long ago a time was; empty below a second, which is no news, and for no time.
func (p page) longAge(t time.Time) string {
	if t.IsZero() || p.Time.Sub(t) < time.Second {
		return ""
	}
	return p.Age(t)
}

// Age returns how long ago a time was, as kubectl does: "5m3s".
func (p page) Age(t time.Time) string { return duration.HumanDuration(max(0, p.Time.Sub(t))) }

// Left returns how long it is until a time.
func (p page) Left(t time.Time) string { return duration.HumanDuration(max(0, t.Sub(p.Time))) }

// short returns the beginning of a text that is too long for the page.
func short(text string) string {
	runes := 0
	for at := range text {
		if runes == maxText {
			return text[:at] + "… (the JSON has all of it)"
		}
		runes++
	}
	return text
}

// plural returns a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// bytesText returns a number of bytes for people.
func bytesText(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1024 && unit < len("KMGT")-1 {
		value, unit = value/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGT"[unit])
}

// tones is the look of each phase. The page shows the phase as a text as well.
var tones = map[objectcache.Phase]string{
	objectcache.PhaseFailing: "bad", objectcache.PhaseNotUpdated: "warn", objectcache.PhaseAbsent: "warn",
	objectcache.PhaseSyncing: "busy", objectcache.PhasePending: "busy",
	objectcache.PhaseIdle: "off", objectcache.PhaseStopped: "off",
}

// streamText returns how changes of an object arrive, or why none do.
func streamText(o *Object) string {
	switch {
	case o.Stream == objectcache.StreamPolled:
		return "polled"
	case o.Stream != objectcache.StreamNamed:
		return string(o.Reason)
	case o.Parked:
		return "parked stream"
	}
	return "stream"
}

// toneOf returns the class of a phase.
func toneOf(phase objectcache.Phase) string {
	if tone, ok := tones[phase]; ok {
		return tone
	}
	return "good"
}

// look returns how the page shows an object's phase: as the text says what a Get returns, and as the tone whether that
// is a problem.
func look(o *Object) (tone, text string) {
	text = phaseText(o.Phase)
	switch o.Problem {
	case "":
		return toneOf(o.Phase), text
	case NotSynced:
		return "busy", text
	case Polled:
		text += ", polled"
	case NotUpdated:
		if o.Phase == objectcache.PhaseAbsent {
			text += ", not updated"
		}
	}
	return o.Problem.tone(), text
}

// rowID returns the id of an object's row, which the script finds it by.
func rowID(o *Object) string {
	return "o-" + strings.Join([]string{o.Resource, o.Namespace, o.Name}, "/")
}
