// SPDX-License-Identifier: Apache-2.0

package debug_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/internal/h2"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/debug"
	"github.com/refwatch/refwatch/test/apiserver"
)

// dialed returns Connections with a failed attempt to connect to an address.
func dialed(address string) *debug.Connections {
	connections := &debug.Connections{}
	config := connections.Track(&rest.Config{Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("refused " + address)
	}})
	_, _ = config.Dial(context.Background(), "tcp", address)
	return connections
}

func TestConnectionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failure error
		connections := &debug.Connections{}
		config := connections.Track(&rest.Config{Dial: func(context.Context, string, string) (net.Conn, error) {
			if failure != nil {
				return nil, failure
			}
			own, peer := net.Pipe()
			go func() { _, _ = io.Copy(peer, io.LimitReader(peer, 3)) }() // echoes 3 bytes
			return own, nil
		}})
		start := time.Now()
		first, err := config.Dial(t.Context(), "tcp", "a:1")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		second, _ := config.Dial(t.Context(), "tcp", "a:1")
		other, _ := config.Dial(t.Context(), "tcp", "b:1")
		if _, err := first.Write([]byte("abc")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(first, make([]byte, 2)); err != nil {
			t.Fatal(err)
		}
		check := func(want debug.Connection) {
			t.Helper()
			if got := connections.Status()[0]; got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		}
		want := debug.Connection{Address: "a:1", Open: 2, Oldest: start, Opened: 2, BytesReceived: 2, BytesSent: 3}
		check(want)

		_, _ = first.Close(), first.Close()
		want.Open, want.Oldest = 1, start.Add(time.Minute)
		check(want)

		failure = context.Canceled
		_, _ = config.Dial(t.Context(), "tcp", "a:1")
		check(want)

		failure = errors.New("no route to host")
		if _, err := config.Dial(t.Context(), "tcp", "a:1"); !errors.Is(err, failure) {
			t.Errorf("dial: got %v, want the cause", err)
		}
		want.Failures, want.LastError, want.LastErrorTime = 1, "no route to host", time.Now()
		check(want)

		_, _ = second.Close(), other.Close()
		want.Open, want.Oldest = 0, time.Time{}
		check(want)
		if got := len(connections.Status()); got != 2 {
			t.Errorf("addresses: got %d, want 2", got)
		}
	})
}

// A tracked client connects to a real server as an untracked one does.
func TestConnectionsToAServer(t *testing.T) {
	server := apiserver.New(t, apiserver.Options{})
	connections := &debug.Connections{}
	config := server.Config()
	tracked := connections.Track(config)
	if config.Dial != nil || connections.Track(nil) != nil {
		t.Error("Track: want that it changes a copy, and nil for nil")
	}
	client, err := manager.ClientFor(tracked)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Discovery().ServerVersion(); err != nil {
		t.Fatal(err)
	}
	status := connections.Status()
	if len(status) != 1 || status[0].Open != 1 || status[0].BytesReceived == 0 || "https://"+status[0].Address != server.URL() {
		t.Errorf("got %+v, want one open connection to %s", status, server.URL())
	}
	// Watches of stores have connections of their own.
	for range 3 {
		w, err := client.CoreV1().Secrets("default").Watch(h2.WithParking(t.Context()), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
	}
	if status := connections.Status(); len(status) != 1 || status[0].Open != 2 || status[0].Opened != 2 {
		t.Errorf("with watches: got %+v, want one connection more", status)
	}
}

func TestNoConnections(t *testing.T) {
	var connections *debug.Connections
	if got := connections.Status(); got == nil || len(got) != 0 {
		t.Errorf("got %v, want none, and not nil", got)
	}
}
