// SPDX-License-Identifier: Apache-2.0

package model

import (
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/history"
)

// verbs is a set of the verbs that read an object.
type verbs uint8

const (
	watchLists verbs = 1 << iota
	watchesAfterLists
	lists
	gets
)

// verbOf returns the verb of a request that reads.
func verbOf(request apiserver.Request) verbs {
	switch {
	case request.Verb == "get":
		return gets
	case request.Verb == "list":
		return lists
	case request.Query.Get("sendInitialEvents") != "":
		return watchLists
	}
	return watchesAfterLists
}

// verbFault is what a fault of some verbs does to an object.
type verbFault struct {
	fails verbs
	// answered is how soon a Get of the object is answered beside the fault, if requests have no latency.
	answered time.Duration
}

// verbFaults are the faults of some verbs, by their names.
var verbFaults = map[string]verbFault{}

// failing are the verbs that fail. Beside those that begin with "only" one is left that reads.
var failing = []struct {
	name  string
	fails verbs
}{
	{"watchlist", watchLists},
	{"watch", watchesAfterLists},
	{"list", lists},
	{"get", gets},
	{"only-gets", watchLists | watchesAfterLists | lists},
	{"only-lists", watchLists | watchesAfterLists | gets},
	{"only-watches", lists | gets},
}

// way is a way in which a verb fails for good, and how soon a Get is answered beside it.
type way struct {
	name     string
	answered time.Duration
	inject   func(*World, Target) (heal func())
}

// ways are all of them. How soon a Get is answered is promised. GETs take the place of requests that were throttled for
// 30 s.
var ways = []way{
	{"forbidden", 5 * time.Second, responds(forbidden)},
	{"500", 5 * time.Second, responds(internalError)},
	{"503", 5 * time.Second, responds(unavailable)},
	{"429", 45 * time.Second, responds(tooManyRequests(0))},
	{"429-with-retry-after", 45 * time.Second, responds(tooManyRequests(1))},
	{"reset", 5 * time.Second, body(func(rw http.ResponseWriter) http.ResponseWriter { return apiserver.ResetBody(rw, 0) })},
	{"hang", time.Minute, hangs},
	{"not-json", 5 * time.Second, raw("application/json", `{"type":"ADDED","object":]]`)},
}

// verbClass is the class of the first faults of verbs.
const verbClass = 45

// The faults of some verbs, which last while another verb may work. Each way has one of the scopes, in turn.
func init() {
	for i, of := range failing {
		for j, way := range ways {
			f := verbsFault(of.name+"-"+way.name, scopes[(i+j)%len(scopes)], failsIn{of.fails, way})
			f.Class = verbClass + i
			addFaults(f)
		}
	}
	for _, left := range []verbs{gets, lists, watchLists} {
		addTriples(left)
	}
}

// scopes are those of the faults of verbs.
var scopes = []Scope{OfServer, OfKind, OfObjects}

// failsIn is how some verbs fail.
type failsIn struct {
	verbs verbs
	way   way
}

// verbsFault returns a fault in which some verbs fail, and others, each in its own way.
func verbsFault(name string, scope Scope, all ...failsIn) Fault {
	var of verbFault
	for _, some := range all {
		of.fails |= some.verbs
		of.answered = max(of.answered, some.way.answered)
	}
	verbFaults[name] = of
	return Fault{verbClass, name, scope, usualRecovery, func(w *World, t Target) func() {
		var heals []func()
		for _, some := range all {
			target := t
			target.verbs = some.verbs
			heals = append(heals, some.way.inject(w, target))
		}
		w.closeStreams(t)
		return func() {
			for _, heal := range heals {
				heal()
			}
		}
	}}
}

// triples are the faults of [Triples].
var triples []Fault

// Triples returns the faults in which three verbs fail, each in its own way, such as
// watchlist-500+watch-reset+list-hang. They are in no catalog, but each has a step.
func Triples() []Fault { return slices.Clone(triples) }

// addTriples adds the faults that leave one verb, in all ways.
func addTriples(left verbs) {
	for i := range len(ways) * len(ways) * len(ways) {
		var names []string
		var all []failsIn
		for rest := i; len(all) < 3; rest /= len(ways) {
			next := failing[:4] // one verb each
			for next[0].fails == left || len(all) > 0 && next[0].fails <= all[len(all)-1].verbs {
				next = next[1:]
			}
			some := failsIn{next[0].fails, ways[rest%len(ways)]}
			names, all = append(names, next[0].name+"-"+some.way.name), append(all, some)
		}
		f := verbsFault(strings.Join(names, "+"), scopes[i%len(scopes)], all...)
		triples = append(triples, f)
		addStep(f, 0)
	}
}

const (
	// readableBound is how soon a state is fresh while one verb works: that is promised. manyReadableBound is the same
	// where many objects share 20 reads a second.
	readableBound, manyReadableBound = 3 * time.Minute, 5 * time.Minute
	// taughtFor is for how long what other faults have taught may hold, and taughtNoGets that GETs are refused.
	taughtFor, taughtNoGets = 10 * time.Minute, time.Hour + time.Minute
)

// works returns what is promised while a fault lasts, and the affected objects that no verb reads meanwhile. Of
// subjects that are not those of this library nothing is known.
func (w *World) works(f Fault, t Target) (works *history.Works, unread []*Object) {
	of, ok := verbFaults[f.Name]
	if !ok || w.options.NewSubjects != nil {
		return nil, nil
	}
	after, some := taughtFor, false
	for _, o := range t.Objects() {
		switch reads := w.reads(o.Kind) &^ of.fails; {
		case reads&(watchLists|lists|gets) == 0:
			unread = append(unread, o)
			continue
		case reads&(watchLists|lists) == 0:
			after = taughtNoGets
		}
		some = true
	}
	if !some {
		return nil, nil
	}
	fresh := readableBound
	if w.settings.objects > mostChecked {
		fresh = manyReadableBound
	}
	return &history.Works{
		Fresh:    metav1.Duration{Duration: fresh + 20*w.settings.latency},
		Answered: metav1.Duration{Duration: of.answered + 10*w.settings.latency},
		After:    metav1.Duration{Duration: after},
	}, unread
}

// reads returns the verbs by which the subject of a kind reads.
func (w *World) reads(kind int) verbs {
	s := &w.settings
	if s.direct || s.ttl > 0 {
		return gets
	}
	all := watchLists | watchesAfterLists | lists
	if s.server.DisableWatchList {
		all &^= watchLists
	}
	if w.kinds[kind].resource != widgets.GroupResource() || s.restWidgets { // a dynamic client is no REST client
		all |= gets
	}
	return all
}
