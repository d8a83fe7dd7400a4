// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	goruntime "runtime"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/watchlist"

	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// parkable returns a source whose scripted streams can be parked, unless blockingStreams is set.
func parkable(source listwatch.Source) listwatch.Source {
	if blockingStreams {
		return source
	}
	return parking{source}
}

// parking is a source whose scripted streams can be parked.
type parking struct{ listwatch.Source }

func (p parking) Watch(ctx context.Context, options metav1.ListOptions) (listwatch.Stream, error) {
	stream, err := p.Source.Watch(ctx, options)
	if err != nil || stream == nil {
		return stream, err
	}
	if _, ok := stream.(untied); !ok {
		return stream, nil // that of a real client, which ends with its context
	}
	return &parkedStream{Stream: stream, free: true}, nil
}

// IsWatchListSemanticsUnSupported implements the method that reflectors look for.
func (p parking) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(p.Source)
}

// untied is a stream whose context can be replaced.
type untied interface{ endWith(context.Context) }

// parkedStream stands for a connection: a goroutine of its own reads the stream.
type parkedStream struct {
	listwatch.Stream

	wake listwatch.Waker

	mu    sync.Mutex
	queue []func() (watch.Event, error) // what Next has returned, or how it has left
	free  bool                          // Wake is due for the next one
}

func (p *parkedStream) Park(wake listwatch.Waker) bool {
	p.wake = wake
	p.Stream.(untied).endWith(context.Background()) // only Close ends it from now on
	if stream, ok := p.Stream.(*fakeStream); ok {   // TryNext has what has arrived
		for range len(stream.events) {
			event, err := stream.Next()
			p.add(func() (watch.Event, error) { return event, err })
		}
	}
	go p.read()
	return true
}

// read reads the stream to its end. What Next does to its goroutine TryNext does to its
// own.
func (p *parkedStream) read() {
	result := func() (watch.Event, error) { goruntime.Goexit(); return watch.Event{}, nil }
	defer func() {
		if value := recover(); value != nil {
			result = func() (watch.Event, error) { panic(value) }
		}
		p.add(result)
	}()
	for {
		event, err := p.Next()
		next := func() (watch.Event, error) { return event, err }
		if err != nil {
			result = next
			return
		}
		p.add(next)
	}
}

func (p *parkedStream) add(result func() (watch.Event, error)) {
	p.mu.Lock()
	p.queue = append(p.queue, result)
	wakes := p.free
	p.free = false
	p.mu.Unlock()
	if wakes {
		p.wake.Wake(false)
	}
}

func (p *parkedStream) TryNext() (event watch.Event, ok bool, err error) {
	p.mu.Lock()
	if len(p.queue) == 0 {
		p.free = true
		p.mu.Unlock()
		return watch.Event{}, false, nil
	}
	result := p.queue[0]
	p.queue = p.queue[1:]
	p.mu.Unlock()
	event, err = result()
	return event, true, err
}
