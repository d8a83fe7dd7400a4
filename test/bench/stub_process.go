// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/test/bench/stub"
)

// stubCommand is the argument with which a worker starts this program as its stub server.
const stubCommand = "stub"

// order is what a worker asks of its stub server, once Set is served.
type order struct {
	Op string
	// I is a Secret of the set.
	I int
}

// The orders.
const (
	// orderStats asks for the numbers only, which every reply has.
	orderStats = "stats"
	// orderUpdate updates a Secret, orderUpdateAll all.
	orderUpdate, orderUpdateAll = "update", "update-all"
	// orderFlood updates a Secret with large values without a pause, from now on.
	orderFlood = "flood"
	// orderNeighbours asks for the Secrets whose streams share the connection of that of a Secret.
	orderNeighbours = "neighbours"
)

// reply is the stub server's to a set and to each order.
type reply struct {
	Err        string
	Host       string // to a set
	CA         []byte // to a set
	Stats      stub.Stats
	Neighbours []int
	Floods     int64   // large values sent so far
	Peak       float64 // bytes of memory that were resident
}

// stubServer is a stub server in a process of its own, whose memory and CPU time are not those of the contender.
type stubServer struct {
	encoder *json.Encoder
	decoder *json.Decoder
}

// stubOptions are what a stub server serves, and how late.
type stubOptions struct {
	Set     set
	Latency time.Duration // of each answer
}

// startStub starts a stub server. The process ends with this one, or with ctx.
func startStub(ctx context.Context, options stubOptions) (*stubServer, *rest.Config, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, path, stubCommand)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	input, inputErr := cmd.StdinPipe()
	output, outputErr := cmd.StdoutPipe()
	if err := errors.Join(inputErr, outputErr, cmd.Start()); err != nil {
		return nil, nil, fmt.Errorf("starting the stub server: %w", err)
	}
	s := &stubServer{json.NewEncoder(input), json.NewDecoder(output)}
	if err := s.encoder.Encode(options); err != nil {
		return nil, nil, err
	}
	r, err := s.reply()
	return s, &rest.Config{Host: r.Host, TLSClientConfig: rest.TLSClientConfig{CAData: r.CA}}, err
}

func (s *stubServer) do(op string, i int) (reply, error) {
	if err := s.send(op, i); err != nil {
		return reply{}, err
	}
	return s.reply()
}

// send sends an order. A call of reply must follow.
func (s *stubServer) send(op string, i int) error {
	if err := s.encoder.Encode(order{op, i}); err != nil {
		return fmt.Errorf("the stub server does not read: %w", err)
	}
	return nil
}

func (s *stubServer) reply() (r reply, err error) {
	if err := s.decoder.Decode(&r); err != nil {
		return r, fmt.Errorf("the stub server has failed: %w", err)
	}
	if r.Err != "" {
		return r, fmt.Errorf("the stub server: %s", r.Err)
	}
	return r, nil
}

// watches returns the number of open streams.
func (s *stubServer) watches(context.Context) (int, error) {
	r, err := s.do(orderStats, 0)
	return r.Stats.Streams, err
}

// stubProcess is the stub server's side.
type stubProcess struct {
	set    set
	server *stub.Server
	flood  sync.WaitGroup

	mu     sync.Mutex
	floods int64
}

// serveStub reads a set and orders from the input to its end, and writes the replies.
func serveStub(ctx context.Context, input io.Reader, output io.Writer) (err error) {
	decoder, encoder := json.NewDecoder(input), json.NewEncoder(output)
	var options stubOptions
	if err := decoder.Decode(&options); err != nil {
		return err
	}
	p := &stubProcess{set: options.Set}
	ctx, cancel := context.WithCancel(ctx)
	defer p.flood.Wait()
	defer cancel()
	if p.server, err = stub.Start(options.Latency); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.server.Close()) }()
	for i := range p.set.Count {
		if err := p.server.Put(ctx, p.set.secret(i, 0)); err != nil {
			return err
		}
	}
	if err := encoder.Encode(reply{Host: p.server.Host(), CA: p.server.CA()}); err != nil {
		return err
	}
	for {
		var o order
		if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		r, err := p.obey(ctx, o)
		if err != nil {
			r.Err = err.Error()
		}
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
}

func (p *stubProcess) obey(ctx context.Context, o order) (r reply, err error) {
	switch o.Op {
	case orderUpdate:
		err = p.server.Put(ctx, p.set.secret(o.I, newEdition()))
	case orderUpdateAll:
		err = p.updateAll(ctx)
	case orderFlood:
		p.flood.Go(func() { p.floodOne(ctx, o.I) })
	case orderNeighbours:
		for _, name := range p.server.Neighbours(nameOf(o.I)) {
			r.Neighbours = append(r.Neighbours, indexOf(name))
		}
	}
	r.Stats, r.Peak = p.server.Stats(), peakOfProcess()
	p.mu.Lock()
	defer p.mu.Unlock()
	r.Floods = p.floods
	return r, err
}

// updateAll updates each Secret once, from two goroutines.
func (p *stubProcess) updateAll(ctx context.Context) error {
	const writers = 2
	var group errgroup.Group
	for writer := range writers {
		group.Go(func() error {
			for i := writer; i < p.set.Count; i += writers {
				if err := p.server.Put(ctx, p.set.secret(i, newEdition())); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// floodOne updates a Secret with values of 1 MiB, in 16 keys, as fast as the client consumes them.
func (p *stubProcess) floodOne(ctx context.Context, i int) {
	const keys, keySize = 16, 64 << 10
	for ctx.Err() == nil {
		secret := p.set.secret(i, newEdition())
		for key := range keys {
			secret.Data[fmt.Sprint("large-", key)] = make([]byte, keySize)
		}
		if p.server.Put(ctx, secret) != nil {
			return
		}
		p.mu.Lock()
		p.floods++
		p.mu.Unlock()
	}
}
