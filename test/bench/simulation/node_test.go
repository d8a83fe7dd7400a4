// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"io"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestNodeConnections(t *testing.T) {
	tests := map[string]struct{ streams, want int }{
		"one":          {1, 1},
		"all in one":   {streamsPerConnection, 1},
		"one too many": {streamsPerConnection + 1, 2},
		"three":        {3 * streamsPerConnection, 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(newCluster(Server2Cores, servers))
				for range test.streams {
					if _, err := n.open(t.Context()); err != nil {
						t.Fatalf("open: %v", err)
					}
				}
				if got := len(n.connections); got != test.want {
					t.Errorf("got %d connections for %d streams, want %d", got, test.streams, test.want)
				}
			})
		})
	}
}

func TestNodeGoesWhereAServerIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(Server2Cores, servers)
		c.stop(c.servers[0], c.servers[2])
		for range 20 {
			conn, err := newNode(c).open(t.Context())
			if err != nil || conn.server != c.servers[1] {
				t.Fatalf("got %v and another server than the one that is up, want it", err)
			}
		}
		c.stop(c.servers[1])
		if _, err := newNode(c).open(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v with no server up, want a refused connection", err)
		}
		if m, _ := c.take(); m.attempts != 21 || m.refused != 1 || m.most != 1 {
			t.Errorf("got %+v, want 21 attempts, 1 refused, 1 at a time", m)
		}
	})
}

func TestObjectIsFreshWhileItHasAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(Server2Cores, 1)
		s := &source{node: newNode(c), object: c.newObject()}
		after(time.Second)
		opened, err := s.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, all := c.allFresh(); !all {
			t.Error("got a stale object with a stream, want a fresh one")
		}
		if event, err := opened.Next(); err != nil || event.Type != watch.Bookmark {
			t.Errorf("got %v, %v, want a bookmark within a minute", event.Type, err)
		}
		if got := c.stop(c.servers...); got != 1 {
			t.Errorf("got %d streams lost, want 1", got)
		}
		if _, err := opened.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v of a server that went, want io.ErrUnexpectedEOF", err)
		}
		if _, all := c.allFresh(); all {
			t.Error("got a fresh object without a stream, want a stale one")
		}
		_ = opened.Close()
		if _, longest := c.take(); longest < time.Second || longest > 2*time.Second {
			t.Errorf("got %s of staleness before the stream, want a second and the open", longest)
		}
		if streams := s.node.connections[0].streams; streams != 0 {
			t.Errorf("got %d streams on the connection, want 0", streams)
		}
	})
}
