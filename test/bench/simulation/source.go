// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/reflector/listwatch"
)

// bookmarkInterval is kube-apiserver's.
const bookmarkInterval = time.Minute

// source is the streams of one object to one node. The object does not exist, and never changes.
type source struct {
	node   *node
	object *object
}

// List implements listwatch.Source. It costs the same as an open.
func (s *source) List(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	conn, err := s.node.open(ctx)
	if err != nil {
		return nil, err
	}
	s.node.leave(conn)
	return &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}, nil
}

// Watch implements listwatch.Source. The object is fresh until the stream ends.
func (s *source) Watch(ctx context.Context, options metav1.ListOptions) (listwatch.Stream, error) {
	conn, err := s.node.open(ctx)
	if err != nil {
		return nil, err
	}
	s.object.setFresh(true)
	conn.server.hold(conn.life, 1)
	return &stream{
		source: s, ctx: ctx, conn: conn, closed: make(chan struct{}),
		state: options.SendInitialEvents != nil,
		// The first comes at a random time, so that not all come at once.
		next: time.Now().Add(time.Duration(rand.Int64N(int64(bookmarkInterval)))),
	}, nil
}

// stream delivers bookmarks until its server stops.
type stream struct {
	*source

	ctx    context.Context
	conn   *connection
	state  bool // the initial bookmark is still to be sent
	next   time.Time
	close  sync.Once
	closed chan struct{}
}

// Next implements listwatch.Stream.
func (s *stream) Next() (watch.Event, error) {
	if s.state {
		s.state = false
		return bookmark(true), nil
	}
	timer := time.NewTimer(time.Until(s.next))
	defer timer.Stop()
	select {
	case <-timer.C:
		s.next = s.next.Add(bookmarkInterval)
		return bookmark(false), nil
	case <-s.ctx.Done():
		return watch.Event{}, s.ctx.Err()
	case <-s.closed:
		return watch.Event{}, io.EOF
	case <-s.conn.life:
		s.object.setFresh(false)
		return watch.Event{}, io.ErrUnexpectedEOF
	}
}

// Close implements listwatch.Stream.
func (s *stream) Close() error {
	s.close.Do(func() {
		s.object.setFresh(false)
		s.conn.server.hold(s.conn.life, -1)
		s.node.leave(s.conn)
		close(s.closed)
	})
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
