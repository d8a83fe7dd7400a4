// SPDX-License-Identifier: Apache-2.0

package network_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/test/network"
)

const roundTrip = 4 * time.Second

// far returns both ends of a connection over a long way, and how long its dial took.
func far(t *testing.T) (client, server net.Conn, took time.Duration) {
	t.Helper()
	accepted := make(chan net.Conn, 1)
	n := network.New(network.Far(func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		accepted <- server
		return client, nil
	}, roundTrip))
	began := time.Now()
	client, err := n.Dial(t.Context(), "tcp", "server:443")
	if err != nil {
		t.Fatal(err)
	}
	return client, <-accepted, time.Since(began)
}

// TestFarDelaysAndDoesNotSlowDown checks that all bytes arrive half a round trip after they were written, however many
// are under way.
func TestFarDelaysAndDoesNotSlowDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server, took := far(t)
		if took != roundTrip {
			t.Errorf("the dial took %v, want a round trip", took)
		}
		began := time.Now()
		const writes = 100
		go func() {
			for range writes {
				if _, err := server.Write(make([]byte, 64<<10)); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Millisecond)
			}
		}()
		if _, err := io.ReadFull(client, make([]byte, writes*64<<10)); err != nil {
			t.Fatal(err)
		}
		if got, want := time.Since(began), roundTrip/2+(writes-1)*time.Millisecond; got != want {
			t.Errorf("got the last byte after %v, want %v", got, want)
		}
		_ = client.Close()
		time.Sleep(2 * roundTrip)
	})
}

// TestFarEnd checks that the end arrives after the bytes before it, and that a dial that is canceled ends.
func TestFarEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server, _ := far(t)
		began := time.Now()
		go func() {
			_, _ = client.Write([]byte("last"))
			_ = client.Close()
		}()
		got, err := io.ReadAll(server)
		if took := time.Since(began); string(got) != "last" || err != nil || took < roundTrip/2 || took > roundTrip {
			t.Errorf("got %q, %v after %v, want what was written, half a round trip to one later", got, err, took)
		}
		time.Sleep(2 * roundTrip)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = network.Far(network.Refuse, roundTrip)(ctx, "tcp", "server:443")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the context", err)
		}
	})
}
