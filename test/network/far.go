// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"net"
	"time"
)

// Far is the dial of a server that is a round trip farther away: it takes one round trip longer, and what either side
// writes arrives half of one later. It is a delay line, which holds whatever is under way, so that it delays bytes and
// does not slow them down.
func Far(dial Dial, roundTrip time.Duration) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		timer := time.NewTimer(roundTrip)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
		}
		server, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		client, near := net.Pipe()
		go carry(near, server, roundTrip/2)
		go carry(server, near, roundTrip/2)
		return client, nil
	}
}

// mostCarried is how many writes are under way on a connection at most.
const mostCarried = 1 << 14

// carried is what was read at once, and when it arrives.
type carried struct {
	bytes []byte
	at    time.Time
}

// carry carries what it reads from one connection to the other, and the end.
func carry(to, from net.Conn, takes time.Duration) {
	way := make(chan carried, mostCarried)
	go func() {
		defer close(way)
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			if n > 0 {
				way <- carried{append([]byte(nil), buffer[:n]...), time.Now().Add(takes)}
			}
			if err != nil {
				return
			}
		}
	}()
	for next := range way {
		<-time.After(time.Until(next.at))
		if _, err := to.Write(next.bytes); err != nil {
			_ = from.Close() // ends the reader
		}
	}
	<-time.After(takes)
	_ = to.Close()
}
