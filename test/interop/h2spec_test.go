// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	h2specclient "github.com/summerwind/h2spec/client"
	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/spec"
)

// specTimeout is how long h2spec waits for an answer. Only a case that fails takes as long.
const specTimeout = 5 * time.Second

// h2spec's command for clients, h2specd, starts a program for each case, and counts a reset connection as not closed.
// So the cases run in this process: each is a server that takes one connection.
func TestH2spec(t *testing.T) {
	t.Parallel()
	for _, c := range specClients {
		t.Run(testName(c.name), func(t *testing.T) {
			t.Parallel()
			cases := specCases(h2specclient.Spec())
			outcomes := runSpecCases(t, c, cases)
			results.addSpec(c, cases, outcomes)
			for id, test := range cases {
				switch err := outcomes[id]; {
				case err == nil:
				case c.own:
					t.Errorf("%s: %s (%s): %s", id, test.Desc, test.Requirement, describe(err))
				default: // it runs for comparison
					t.Logf("%s: %s (%s): %s", id, test.Desc, test.Requirement, describe(err))
				}
			}
		})
	}
}

// specClients are the clients that h2spec tests, in the order of the table.
var specClients = []client{refwatch, reading, netHTTP}

// specDeadlocks are the cases that net/http's client does not survive.
var specDeadlocks = map[string]string{
	"6.9.1/2": "net/http ends the stream while it holds the lock of the connection, and so waits for itself",
}

// runSpecCases runs all cases at the same time, and returns their outcomes by ID.
func runSpecCases(t *testing.T, c client, cases map[string]*spec.ClientTestCase) map[string]error {
	outcomes := map[string]error{}
	var mu sync.Mutex
	var running sync.WaitGroup
	for id, test := range cases {
		if reason, deadlocks := specDeadlocks[id]; deadlocks && !c.own {
			mu.Lock()
			outcomes[id] = errors.New(reason)
			mu.Unlock()
			continue
		}
		run := newSpecRun(t, c)
		running.Go(func() {
			err := run.do(test)
			mu.Lock()
			defer mu.Unlock()
			outcomes[id] = err
		})
	}
	running.Wait()
	return outcomes
}

// specCases returns the cases of h2spec by their ID: the section in h2spec, and a number.
func specCases(group *spec.ClientTestGroup) map[string]*spec.ClientTestCase {
	cases := map[string]*spec.ClientTestCase{}
	for _, test := range group.Tests {
		cases[fmt.Sprintf("%s/%d", group.Section, test.Seq)] = test
	}
	for _, child := range group.Groups {
		maps.Copy(cases, specCases(child))
	}
	return cases
}

// specRun is a client, and the server of one case.
type specRun struct {
	*testing.T
	client       client
	roundTripper http.RoundTripper
	url          string
	listener     net.Listener
}

func newSpecRun(t *testing.T, c client) *specRun {
	listener, err := tls.Listen("tcp", "127.0.0.1:0", serverTLS(t))
	if err != nil {
		t.Fatal(err)
	}
	config, _ := configFor(t, listener.Addr().String())
	return &specRun{T: t, client: c, roundTripper: c.transport(t, config), url: config.Host, listener: listener}
}

// do lets the client open a stream and read it to its end, and returns what h2spec says.
func (r *specRun) do(test *spec.ClientTestCase) error {
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		response, err := r.client.watch(ctx, r.roundTripper, r.url)
		if err == nil {
			var stream *stream
			if stream, err = r.client.receive(response.Body, func(string) {}); err != nil {
				r.Error(err)
			} else {
				<-stream.ended
				stream.close()
			}
		}
		<-ctx.Done() // the program goes on, and its connections stay open
	}()
	defer func() {
		cancel()
		<-ended
	}()
	return r.serve(ctx, test)
}

// serve runs the case on the first connection. A client that dials once more is refused.
func (r *specRun) serve(ctx context.Context, test *spec.ClientTestCase) error {
	conn, err := r.listener.Accept()
	_ = r.listener.Close()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.(*tls.Conn).HandshakeContext(ctx); err != nil {
		return err
	}
	settings := &config.Config{Host: "127.0.0.1", TLS: true, Timeout: specTimeout, MaxHeaderLen: 4000}
	accepted, err := spec.Accept(settings, resetIsClosed{conn})
	if err != nil {
		return err
	}
	return test.Run(settings, accepted)
}

// resetIsClosed makes h2spec take a connection that the client has reset, or closed without a TLS alert, for closed.
// h2spec means to, but its comparison of errors is older than os.SyscallError.
type resetIsClosed struct{ net.Conn }

func (c resetIsClosed) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// describe returns the whole text of an error of h2spec, whose method Error says less.
func describe(err error) string {
	var failed *spec.TestError
	if errors.As(err, &failed) {
		return fmt.Sprintf("expected %s, got %s", strings.Join(failed.Expected, " or "), failed.Actual)
	}
	return err.Error()
}
