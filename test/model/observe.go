// SPDX-License-Identifier: Apache-2.0

package model

import (
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/history"
)

// observer reports what the server observes to the history.
func (w *World) observer() apiserver.Observer {
	return apiserver.Observer{
		Write: w.observeWrite, Request: w.observeRequest, Response: w.observeResponse,
		StreamOpened: w.observeStream(history.Object.StreamOpened, 1), StreamClosed: w.observeStream(history.Object.StreamClosed, -1),
	}
}

// observeWrite is called by the server for each write.
func (w *World) observeWrite(write apiserver.Write) {
	o := w.named(nameOf(write.Resource.String(), write.Key))
	switch {
	case o == nil:
	case write.Type == watch.Deleted:
		o.set(history.State{}, false)
		o.Deleted()
	default:
		state := history.StateOf(write.Object)
		o.set(state, true)
		o.Written(state)
	}
}

// reads are the verbs of requests that read.
var reads = []string{"get", "list", "watch"}

// observeRequest is called by the server when a request arrives.
func (w *World) observeRequest(request apiserver.Request) {
	if !ofSubjects(request) {
		return
	}
	o := w.object(request)
	if o == nil || !slices.Contains(reads, request.Verb) {
		if w.options.Allowed != nil && w.options.Allowed(request) {
			return
		}
		w.recorder.Foreign(request.Verb + " " + request.Path)
	} else {
		o.requests.Add(1)
		o.Request(request.Verb)
	}
}

// observeResponse is called by the server when it responds.
func (w *World) observeResponse(request apiserver.Request) {
	if o := w.object(request); o != nil && ofSubjects(request) && slices.Contains(reads, request.Verb) {
		o.Response(request.Verb, request.Code)
		if request.Verb == "list" && request.Code == http.StatusOK {
			o.listed.Store(w.restores.Load() + 1)
		}
	}
}

// observeStream returns a function that the server calls when a stream was opened or closed.
func (w *World) observeStream(f func(history.Object), change int64) func(apiserver.Request) {
	return func(request apiserver.Request) {
		if o := w.object(request); o != nil && ofSubjects(request) {
			o.mu.Lock()
			switch streams := o.streams.Add(change); {
			case change > 0:
				w.openedLocked(o, request)
			case streams == 0: // a watch without an answer is sent again: several of them may be open
				o.endGapLocked()
			}
			o.mu.Unlock()
			f(o.Object)
		}
	}
}

// openedLocked handles that a stream of an object was opened.
func (w *World) openedLocked(o *Object, request apiserver.Request) {
	restores := w.restores.Load()
	o.restores.Store(restores)
	listed := o.listed.Load()
	if w.options.Streams > 1 { // the list, and a gap, may be those of another stream
		if o.gap.Load() != nil {
			return
		}
	} else {
		o.endGapLocked()
		if request.Query.Get("sendInitialEvents") != "" {
			o.listed.Store(0)
			return
		}
	}
	if listed > 0 && listed <= restores {
		gap := w.recorder.Fault("restored between a list and a watch", usualRecovery, o.Object)
		o.gap.Store(&gap)
	}
}

func (o *Object) endGapLocked() {
	if gap := o.gap.Swap(nil); gap != nil {
		gap.End()
	}
}

// noteRetryAfter remembers a Retry-After. A DirectStore reads for each Get, also then. That of a GET beside a slow read
// does not count: the read gets one of its own.
func (w *World) noteRetryAfter(request apiserver.Request, status *metav1.Status) {
	o := w.object(request)
	if o == nil || request.Verb == "get" && w.settings.ttl == 0 || w.settings.direct || !w.alone.Load() || !w.kinds[o.Kind].noticesRetryAfter || status.Details == nil || status.Details.RetryAfterSeconds == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.notBefore = time.Now().Add(time.Duration(status.Details.RetryAfterSeconds) * time.Second)
	o.throttled, o.askedAt = o.additions, time.Now()
}

// forgetRetryAfter forgets a Retry-After of this moment: the fault that begins now may keep it from the subject.
func (o *Object) forgetRetryAfter() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.askedAt.Equal(time.Now()) {
		o.notBefore = time.Time{}
	}
}

// checkRetryAfter checks that a request honors the last Retry-After: L3.
func (w *World) checkRetryAfter(request apiserver.Request) {
	o := w.object(request)
	if o == nil {
		return
	}
	o.mu.Lock()
	early := time.Until(o.notBefore)
	same := o.throttled == o.additions
	o.mu.Unlock()
	if early > 0 && same {
		w.violate("L3", o, "a %s comes %v before the end of the server's Retry-After", request.Verb, early)
	}
}

// object returns the object that a request is for, and nil if it is for another one or for several.
func (w *World) object(request apiserver.Request) *Object {
	resource := request.Resource
	if request.Group != "" {
		resource += "." + request.Group
	}
	return w.named(nameOf(resource, request.Key()))
}

// named returns the object of a name, and nil if there is none.
func (w *World) named(name string) *Object {
	o, _ := w.byName.Load(name)
	object, _ := o.(*Object)
	return object
}

func nameOf(resource string, key types.NamespacedName) string { return resource + "/" + key.String() }
