// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/test/bench/contender"
	"github.com/refwatch/refwatch/test/bench/workload"
)

// worker is one contender under measurement.
type worker struct {
	start     Start
	contender contender.Contender
	client    kubernetes.Interface // for updates; what it sends is not counted
	pods      []*corev1.Pod
	names     []string
	follows   bool // whether the contender delivers changes
	changes   changes
	streams   streams
}

// handlers answer the requests.
func (w *worker) handlers() map[string]handler {
	return map[string]handler{
		OpStart:      handle(w.begin),
		OpLoad:       handle(w.load),
		OpMemory:     handle(w.memory),
		OpUnregister: handle(w.unregister),
		OpFirstGet:   handle(w.firstGet),
		OpGet:        handle(w.get),
		OpRegister:   handle(w.register),
		OpUpdate:     handle(w.update),
		OpVerify:     handle(w.verify),
		OpCPU:        handle(w.cpu),
		OpStreams:    handle(w.streams.now),
		OpRecord:     handle(w.streams.record),
		OpRecorded:   handle(w.streams.recorded),
	}
}

// handler answers one request.
type handler func(ctx context.Context, args json.RawMessage) (any, error)

// none is an argument or a result without content.
type none struct{}

// handle makes a handler of a function with arguments and a result.
func handle[A, R any](answer func(context.Context, A) (R, error)) handler {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var args A
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &args); err != nil {
				return nil, fmt.Errorf("reading the arguments: %w", err)
			}
		}
		return answer(ctx, args)
	}
}

// Run answers requests until the input ends, and returns nil then. The input ends with the driver, in the middle of
// a request, too: that one is cut short.
func Run(ctx context.Context, input io.Reader, output io.Writer) error {
	ended := ctx.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	requests, readErr := make(chan Request), make(chan error, 1)
	go func() {
		defer cancel()
		readErr <- readRequests(ctx, input, requests)
	}()
	handlers := (&worker{}).handlers()
	encoder := json.NewEncoder(output)
	for {
		select {
		case err := <-readErr:
			return err
		case <-ended: // somebody else wants the worker to end, and its input may never do so
			return context.Cause(ctx)
		case request := <-requests:
			if err := encoder.Encode(respond(ctx, handlers, request)); err != nil {
				return fmt.Errorf("writing a response: %w", err)
			}
		}
	}
}

func readRequests(ctx context.Context, input io.Reader, requests chan<- Request) error {
	decoder := json.NewDecoder(input)
	for {
		var request Request
		if err := decoder.Decode(&request); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading a request: %w", err)
		}
		select {
		case requests <- request:
		case <-ctx.Done():
			return nil
		}
	}
}

func respond(ctx context.Context, handlers map[string]handler, request Request) Response {
	answer, ok := handlers[request.Op]
	if !ok {
		return Response{Error: fmt.Sprintf("there is no request %q", request.Op)}
	}
	result, err := answer(ctx, request.Args)
	if err != nil {
		return Response{Error: err.Error()}
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return Response{Error: err.Error()}
	}
	return Response{Result: raw}
}

// begin starts the contender.
func (w *worker) begin(ctx context.Context, start Start) (none, error) {
	kind, err := contender.ByName(start.Contender)
	if err != nil {
		return none{}, err
	}
	if w.client, err = kubernetes.NewForConfig(start.Credentials.config()); err != nil {
		return none{}, fmt.Errorf("making a client: %w", err)
	}
	options := contender.Options{Config: start.Credentials.config(), Namespace: start.Set.Namespace}
	w.follows = start.Follow && kind.Follows
	if w.follows {
		options.Follow = w.changes.arrived
	}
	if start.CountStreams {
		w.streams.count(options.Config)
	}
	w.start = start
	w.pods = start.Set.Pods(start.SecretsPerPod)
	w.names = start.Set.Names()
	w.contender, err = kind.New(ctx, options)
	return none{}, err
}

// set is what the worker's secrets are.
func (w *worker) set() workload.Set { return w.start.Set }
