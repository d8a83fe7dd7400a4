// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/refwatch/refwatch/objectcache"
)

// anyProblem is the value of phase that selects all objects with a problem.
const anyProblem = "Problem"

// phases are the values of phase that select by [Object].Phase, in the order in which objects are sorted by phase: what
// needs attention comes first.
var phases = []objectcache.Phase{
	objectcache.PhaseFailing, objectcache.PhaseSyncing, objectcache.PhaseNotUpdated, objectcache.PhaseAbsent,
	objectcache.PhasePending, objectcache.PhaseServing, objectcache.PhaseIdle, objectcache.PhaseStopped,
}

// orders are the values of sort. Objects that are equal in it are sorted by name.
var orders = map[string]func(a, b *Object) int{
	"problem": func(a, b *Object) int {
		if a.Problem != b.Problem {
			return cmp.Compare(rank(a.Problem), rank(b.Problem))
		}
		return comparePhases(a, b)
	},
	"phase": comparePhases,
	"name":  func(*Object, *Object) int { return 0 },
	// Objects without contact are the oldest.
	"age": func(a, b *Object) int { return b.LastContact.Compare(a.LastContact) },
	// The last change comes first.
	"changed": func(a, b *Object) int { return b.ChangedAt.Compare(a.ChangedAt) },
	"owners":  func(a, b *Object) int { return cmp.Compare(len(a.Owners), len(b.Owners)) },
}

// problems are in the order in which objects with them are sorted.
var problems = []Problem{Failing, NotSynced, NotUpdated, Polled, Absent, ""}

func rank(problem Problem) int { return slices.Index(problems, problem) }

func comparePhases(a, b *Object) int {
	if a.Phase == b.Phase {
		return 0
	}
	return cmp.Compare(slices.Index(phases, a.Phase), slices.Index(phases, b.Phase))
}

func compareNames(a, b *Object) int {
	if a.Namespace != b.Namespace {
		return cmp.Compare(a.Namespace, b.Namespace)
	}
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Resource, b.Resource))
}

// maxQueryValue bounds a value of a query, in bytes: each word of a filter is searched for in each text of each object.
const maxQueryValue = 500

// query is what a request selects. A field is empty if the request does not have it.
type query struct {
	Filter, Phase, Cause, Resource, Sort, Format string
}

// parseQuery returns the query of a request, or an error for one with unknown names or
// values. Its format is not empty.
func (o Options) parseQuery(r *http.Request) (query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return query{}, fmt.Errorf("the query of the URL is malformed: %w", err)
	}
	phaseNames := []string{anyProblem}
	for _, phase := range phases {
		phaseNames = append(phaseNames, string(phase))
	}
	var sorts []string
	for _, order := range slices.Sorted(maps.Keys(orders)) {
		sorts = append(sorts, order, "-"+order)
	}
	var q query
	fields := map[string]struct {
		value *string
		known []string // nil for any
	}{
		"filter":   {&q.Filter, nil},
		"phase":    {&q.Phase, phaseNames},
		"cause":    {&q.Cause, nil}, // it may have gone since the page was made
		"resource": {&q.Resource, slices.Sorted(maps.Keys(o.Sources))},
		"sort":     {&q.Sort, sorts},
		"format":   {&q.Format, []string{"html", "json", "roles"}},
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		field, ok := fields[name]
		if !ok {
			return query{}, fmt.Errorf("unknown query %q: known are %s", name, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if len(values[name]) > 1 {
			return query{}, fmt.Errorf("query %q is given %d times: give it once", name, len(values[name]))
		}
		*field.value = values[name][0]
		if len(*field.value) > maxQueryValue {
			return query{}, fmt.Errorf("query %q has %d bytes: give at most %d", name, len(*field.value), maxQueryValue)
		}
		if *field.value != "" && field.known != nil && !slices.Contains(field.known, *field.value) {
			return query{}, fmt.Errorf("unknown %s %q: known are %s", name, *field.value, strings.Join(field.known, ", "))
		}
	}
	if q.Format == "" {
		q.Format = "html"
		if prefersJSON(r.Header) {
			q.Format = "json"
		}
	}
	return q, nil
}

// with returns the query string with one value changed.
func (q query) with(name, value string) string {
	values := url.Values{}
	for field, current := range map[string]string{"filter": q.Filter, "phase": q.Phase, "cause": q.Cause, "resource": q.Resource, "sort": q.Sort} {
		if field == name {
			current = value
		}
		if current != "" {
			values.Set(field, current)
		}
	}
	if name == "format" {
		values.Set(name, value)
	}
	return "?" + values.Encode()
}

// apply returns the objects that match, in the order of the query.
func (q query) apply(objects []*Object) []*Object {
	words := strings.Fields(strings.ToLower(q.Filter))
	objects = slices.DeleteFunc(objects, func(o *Object) bool {
		switch {
		case q.Resource != "" && q.Resource != o.Resource,
			q.Cause != "" && q.Cause != o.Cause,
			q.Phase == anyProblem && o.Problem == "",
			q.Phase != "" && q.Phase != anyProblem && q.Phase != string(o.Phase):
			return true
		}
		return !o.matches(words)
	})
	name, reverse := strings.CutPrefix(cmp.Or(q.Sort, "problem"), "-")
	order := orders[name]
	slices.SortFunc(objects, func(a, b *Object) int {
		c := order(a, b)
		if c == 0 {
			c = compareNames(a, b)
		}
		if reverse {
			return -c
		}
		return c
	})
	return objects
}

// matches reports whether each word, which is in lower case, is part of a text of the object.
func (o *Object) matches(words []string) bool {
	for _, word := range words {
		if !o.contains(word) {
			return false
		}
	}
	return true
}

func (o *Object) contains(word string) bool {
	for _, text := range [...]string{
		o.Key(), o.Resource, string(o.Phase), string(o.Stream), string(o.Reason), string(o.Problem), string(o.UID), o.ResourceVersion,
		o.Waiting, o.LastError,
	} {
		if strings.Contains(strings.ToLower(text), word) {
			return true
		}
	}
	return slices.ContainsFunc(o.Owners, func(owner Owner) bool {
		return strings.Contains(strings.ToLower(owner.String()), word) || strings.Contains(strings.ToLower(string(owner.UID)), word)
	})
}
