// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/refwatch/refwatch/objectcache/internal/engine"
)

// The script is the rules of hedged reads for people to read. go test -rewrite writes what they do now.
func TestHedgeScript(t *testing.T) {
	w := newHedgeWorld()
	datadriven.RunTest(t, "testdata/hedge.txt", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "store" { // another one
			w = newHedgeWorld()
			return ""
		}
		text, err := w.step(d.Cmd, d.CmdArgs)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		return text
	})
}

// hedgeWorld is a store, with watches that have names.
type hedgeWorld struct {
	now     time.Duration
	hedges  engine.Hedges[*hedgedWatch]
	watches map[string]*hedgedWatch
	waiting int
}

func newHedgeWorld() *hedgeWorld {
	return &hedgeWorld{now: time.Hour, watches: map[string]*hedgedWatch{}}
}

type hedgedWatch struct {
	engine.Hedge
	name      string
	namespace string
	began     time.Duration // of its Get
	waits     bool
	known     bool
}

func (w *hedgeWorld) step(cmd string, args []datadriven.CmdArg) (string, error) {
	if cmd == "pass" {
		passed, err := time.ParseDuration(args[0].String())
		w.now += passed
		return "", err
	}
	name := args[0].String()
	watch := w.watches[name]
	if watch == nil {
		namespace, _, _ := strings.Cut(name, "/")
		watch = &hedgedWatch{name: name, namespace: namespace}
		w.watches[name] = watch
	}
	switch cmd {
	case "get":
		return w.get(watch, args[1:])
	case "answer":
		stored, known, err := answerOf(args[1].String())
		if !known {
			return "", fmt.Errorf("unknown answer %q", args[1])
		}
		w.hedges.Answered(&watch.Hedge, watch.namespace, watch.known, err, w.now)
		text := w.begin()
		watch.End(stored && !watch.known, w.now)
		if watch.Brought {
			w.gotten(watch)
			text = "the Get has the object\n" + text
		}
		return text, nil
	case "stream": // has brought the state
		watch.known = true
		w.gotten(watch)
		w.hedges.Opened(&watch.Hedge, watch.namespace, w.now)
		return "", nil
	case "end": // the last reference
		w.gotten(watch)
		w.hedges.Leave(&watch.Hedge)
		if watch.UnderWay {
			w.hedges.Canceled(w.now)
		}
		delete(w.watches, name)
		return w.begin(), nil
	}
	return "", fmt.Errorf("unknown command %q", cmd)
}

func answerOf(text string) (stored, known bool, err error) {
	switch text {
	case "object":
		return true, true, nil
	case "absent":
		return false, true, nil
	case "forbidden":
		return false, true, apierrors.NewForbidden(schema.GroupResource{}, "", nil)
	case "failing":
		return false, true, errors.New("failing")
	case "retry-after":
		return false, true, apierrors.NewTooManyRequests("", 300)
	}
	return false, false, nil
}

// get is a Get that begins, or asks again.
func (w *hedgeWorld) get(watch *hedgedWatch, words []datadriven.CmdArg) (string, error) {
	if !watch.waits {
		watch.waits, watch.began = true, w.now
		w.waiting++
	}
	g := engine.HedgeWait{
		Began: watch.began, Namespace: watch.namespace, Waiting: w.waiting, Known: watch.known && !watch.Brought,
		RoundTrip: 2 * time.Millisecond,
	}
	for _, word := range words {
		if trip, err := time.ParseDuration(word.Key); err == nil {
			g.RoundTrip = trip
			continue
		}
		flag := map[string]*bool{
			"barred": &g.Barred, "answered": &g.Answered, "failed": &g.Failed, "hung": &g.Hung, "getting": &g.Getting,
		}[word.String()]
		if flag == nil {
			return "", fmt.Errorf("unknown word %q", word)
		}
		*flag = true
	}
	again := w.hedges.Ask(watch, &watch.Hedge, g, w.now)
	if began := w.begin(); began != "" {
		return began, nil
	}
	if again < 0 {
		return "never\n", nil
	}
	return fmt.Sprintf("asks again after %v\n", again), nil
}

func (w *hedgeWorld) gotten(watch *hedgedWatch) {
	if watch.waits {
		watch.waits = false
		w.waiting--
	}
}

// begin begins the hedged reads that may.
func (w *hedgeWorld) begin() (text string) {
	needed := func(watch *hedgedWatch) bool {
		if !watch.waits {
			text += watch.name + " was queued, and needs no GET\n"
		}
		return watch.waits
	}
	for {
		watch, ok := w.hedges.Begin(needed, w.now)
		if !ok {
			return text
		}
		text += "GET of " + watch.name
		if timeout := w.hedges.Timeout(); timeout != 3*time.Second {
			text += fmt.Sprintf(" for %v", timeout)
		}
		text += "\n"
	}
}
