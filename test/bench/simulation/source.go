// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// bookmarkInterval is kube-apiserver's.
const bookmarkInterval = time.Minute

// source is the streams of one object to one node. The object does not exist, and never changes. It is fresh while it
// has a stream.
type source struct{ *node }

func newSource(n *node) *source {
	n.cluster.count(func(*Outcome) { n.cluster.objects++ })
	return &source{n}
}

// List implements listwatch.Source. No reflector lists, because every server streams initial events.
func (s *source) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return nil, errors.ErrUnsupported
}

// Watch implements listwatch.Source.
func (s *source) Watch(ctx context.Context, options metav1.ListOptions) (listwatch.Stream, error) {
	conn, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	c := s.cluster
	c.count(func(*Outcome) {
		if c.fresh++; c.fresh == c.objects {
			c.since = time.Now()
		}
	})
	ctx, cancel := conn.server.bind(ctx)
	return &stream{
		ctx: ctx, cluster: c, initial: options.SendInitialEvents != nil,
		// The first comes at a random time, so that not all come at once.
		next: time.Now().Add(rand.N(bookmarkInterval)),
		close: sync.OnceFunc(func() {
			cancel()
			c.count(func(*Outcome) {
				c.fresh--
				conn.streams--
			})
		}),
	}, nil
}

// stream delivers bookmarks until its server stops.
type stream struct {
	ctx     context.Context
	cluster *cluster
	initial bool // the initial bookmark is still to be sent
	next    time.Time
	close   func()
}

// Next implements listwatch.Stream.
func (s *stream) Next() (watch.Event, error) {
	if s.initial {
		s.initial = false
		return bookmark(true), nil
	}
	err := pause(s.ctx, time.Until(s.next))
	if errors.Is(err, io.ErrUnexpectedEOF) {
		s.cluster.count(func(o *Outcome) { o.Broken++ })
	}
	if err != nil {
		return watch.Event{}, err
	}
	s.next = s.next.Add(bookmarkInterval)
	return bookmark(false), nil
}

// Close implements listwatch.Stream.
func (s *stream) Close() error {
	s.close()
	return nil
}

// bookmark returns a bookmark. An initial one ends the initial events (KEP-3157).
func bookmark(initial bool) watch.Event {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}}
	if initial {
		secret.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return watch.Event{Type: watch.Bookmark, Object: secret}
}
