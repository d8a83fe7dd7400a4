// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/canary"
)

// output is what a program would show of the subjects: their log at -v=10, their errors, and their status in the end.
// No object data may be in it: S8.
type output struct {
	canaries canary.Canaries
	value    string // in each object

	mu    sync.Mutex
	text  strings.Builder
	texts int64
}

func newOutput() *output {
	o := &output{}
	o.value = o.canaries.New()
	return o
}

func (o *output) add(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.WriteString(text)
	o.text.WriteByte('\n')
	o.texts++
}

func (o *output) logger() logr.Logger {
	return funcr.New(func(prefix, args string) { o.add(prefix + " " + args) }, funcr.Options{Verbosity: 10})
}

// addSubject adds what a manager of this library shows of itself.
func (o *output) addSubject(s Subject) {
	if s, ok := s.(Lister); ok {
		for status := range s.Statuses() {
			o.add(fmt.Sprintf("%+v", status))
		}
	}
	if s, ok := s.(interface{ Stats() objectcache.Stats }); ok {
		o.add(fmt.Sprintf("%+v", s.Stats()))
	}
}

// find returns where parts of the value are.
func (o *output) find() []canary.Leak {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.canaries.Find(o.text.String())
}
