// SPDX-License-Identifier: Apache-2.0

package patterns_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/test/history"
)

// result is what a reconcile has made of a Secret: its state, or the error that says that it is absent.
type result struct {
	object metav1.Object
	err    error
}

func (r result) String() string {
	if r.err != nil {
		return "its absence"
	}
	return history.StateOf(r.object).String()
}

// outcome is the last result of a Secret.
type outcome struct {
	last  result
	known bool
	again bool                 // followers get the next result also if it is the same: a custom resource is new
	by    map[types.UID]result // the last result of each custom resource
}

// outcomes are those of all Secrets.
type outcomes struct {
	mu     sync.Mutex
	of     map[types.NamespacedName]*outcome
	queues []*queue
}

func (o *outcomes) atLocked(key types.NamespacedName) *outcome {
	if o.of[key] == nil {
		o.of[key] = &outcome{by: map[types.UID]result{}}
	}
	return o.of[key]
}

// renew makes the next result of a Secret new to followers, or that of all Secrets.
func (o *outcomes) renew(key *types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if key != nil {
		o.atLocked(*key).again = true
		return
	}
	for _, one := range o.of {
		one.again = true
	}
}

// add adds a result of a reconcile of a custom resource.
func (o *outcomes) add(key types.NamespacedName, by types.UID, r result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	one := o.atLocked(key)
	one.by[by] = r
	if one.known && !one.again && one.last.String() == r.String() {
		return
	}
	one.last, one.known, one.again = r, true, false
	for _, q := range o.queues {
		q.add(keyed{key, r})
	}
}

// check returns an error if the last result of a custom resource is not the last one of the Secret.
func (o *outcomes) check(by types.UID) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var problems []error
	for key, one := range o.of {
		if got, ok := one.by[by]; ok && got.String() != one.last.String() {
			problems = append(problems, fmt.Errorf("%s: the last reconcile of %s has seen %s, and another one %s", key, by, got, one.last))
		}
	}
	return errors.Join(problems...)
}

// follow returns a function that returns the results from now on, and before them the last of each Secret.
func (o *outcomes) follow() (next func(context.Context) (types.NamespacedName, result, bool), stop func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := &queue{more: make(chan struct{}, 1)}
	for key, one := range o.of {
		if one.known {
			q.add(keyed{key, one.last})
		}
	}
	o.queues = append(o.queues, q)
	return q.next, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.queues = slices.DeleteFunc(o.queues, func(other *queue) bool { return other == q })
	}
}

type keyed struct {
	types.NamespacedName
	result
}

// queue holds the results that a follower has not yet got.
type queue struct {
	more chan struct{}

	mu      sync.Mutex
	results []keyed
}

func (q *queue) add(r keyed) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.results = append(q.results, r)
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (q *queue) next(ctx context.Context) (key types.NamespacedName, r result, ok bool) {
	for {
		q.mu.Lock()
		if len(q.results) > 0 && ctx.Err() == nil {
			first := q.results[0]
			q.results = q.results[1:]
			q.mu.Unlock()
			return first.NamespacedName, first.result, true
		}
		q.mu.Unlock()
		select {
		case <-q.more:
		case <-ctx.Done():
			return key, r, false
		}
	}
}

// findings are errors that operators themselves have found.
type findings struct {
	mu     sync.Mutex
	errors []error
}

func (f *findings) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errors = append(f.errors, err)
}

func (f *findings) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.errors...)
}
