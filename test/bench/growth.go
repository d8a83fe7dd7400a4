// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/debug"
	storemetrics "github.com/refwatch/refwatch/manager/metrics"
	"github.com/refwatch/refwatch/test/network"
)

// measureGrowth measures what each operation on many objects costs for each of them. What does not depend on the number
// of objects has the same figure for all numbers.
func (w *worker) measureGrowth(ctx context.Context) error {
	connections := network.New(w.config.Dial)
	w.config.Dial = connections.Dial
	if err := w.start(ctx); err != nil {
		return err
	}
	secrets, ok := w.contender.(*manager.Manager[*corev1.Secret])
	if !ok {
		return errors.New("this scenario measures refwatch only")
	}
	pods := w.Set.pods(secretsPerPod)
	began, before := time.Now(), cpuClock(ofProcess)
	err := w.addGrowth("register", ofThread, func() error {
		for _, pod := range pods {
			secrets.RegisterPod(pod)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := w.load(ctx, nil); err != nil {
		return err
	}
	each := float64(w.Set.Count) // streams open from the first registration on
	w.round.Values[fmt.Sprint("growth-open-us-", w.Set.Count)] = float64(cpuClock(ofProcess)-before) / 1000 / each
	w.round.Values[fmt.Sprint("growth-open-seconds-", w.Set.Count)] = time.Since(began).Seconds()
	steps, err := w.growthSteps(secrets, connections)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if err := w.addGrowth(step.name, step.clock, func() error { return step.run(ctx) }); err != nil {
			return err
		}
	}
	err = w.addGrowth("unregister", ofThread, func() error {
		for _, pod := range pods {
			secrets.UnregisterPod(pod)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.awaitWatches(ctx, 0)
}

// growthStep is what is done with open streams.
type growthStep struct {
	name  string
	clock int32
	run   func(context.Context) error
}

func (w *worker) growthSteps(secrets *manager.Manager[*corev1.Secret], connections *network.Network) ([]growthStep, error) {
	handler, err1 := debug.NewHandler(debug.Options{Sources: map[string]debug.Source{"secrets": secrets}})
	collector, err2 := storemetrics.NewCollector(map[string]storemetrics.Store{"secrets": secrets})
	registry := prometheus.NewRegistry()
	if err := errors.Join(err1, err2, registry.Register(collector)); err != nil {
		return nil, err
	}
	return []growthStep{
		{"get", ofThread, w.getAll},
		{"has-synced", ofThread, func(context.Context) error { return errUnless(secrets.HasSynced(), "HasSynced returns false") }},
		{"statuses", ofProcess, func(context.Context) error {
			count := 0
			for range secrets.Statuses() {
				count++
			}
			return errUnless(count == w.Set.Count, "Statuses yields another number of objects")
		}},
		{"scrape", ofProcess, func(context.Context) error {
			_, err := registry.Gather()
			return err
		}},
		{"page", ofProcess, func(context.Context) error { return serve(handler, "") }},
		{"json", ofProcess, func(context.Context) error { return serve(handler, "?format=json") }},
		{"collection", ofProcess, func(context.Context) error { runtime.GC(); return nil }},
		{"update", ofProcess, func(ctx context.Context) error { _, err := w.updateAll(ctx); return err }},
		{"outage", ofProcess, func(ctx context.Context) error {
			connections.Each((*network.Conn).Reset)
			return w.awaitStreamsAgain(ctx)
		}},
	}, nil
}

// addGrowth adds the CPU time that a function takes, in µs for each object, and the time that it takes, in seconds.
func (w *worker) addGrowth(name string, clock int32, run func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtime.GC()
	began, before := time.Now(), cpuClock(clock)
	if err := run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	used, took := cpuClock(clock)-before, time.Since(began)
	w.round.Values[fmt.Sprintf("growth-%s-us-%d", name, w.Set.Count)] = float64(used) / 1000 / float64(w.Set.Count)
	w.round.Values[fmt.Sprintf("growth-%s-seconds-%d", name, w.Set.Count)] = took.Seconds()
	return nil
}

// The CPU clocks of the calling thread and of the process.
const ofThread, ofProcess = unix.CLOCK_THREAD_CPUTIME_ID, unix.CLOCK_PROCESS_CPUTIME_ID

// cpuClock returns the CPU time on a clock. It has a finer resolution than getrusage.
func cpuClock(clock int32) time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(clock, &now) // cannot fail for these clocks
	return time.Duration(now.Nano())
}

func errUnless(ok bool, text string) error {
	if !ok {
		return errors.New(text)
	}
	return nil
}

func serve(handler http.Handler, query string) error {
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/debug/refwatch"+query, nil))
	return errUnless(response.Code == http.StatusOK, "the page is not served")
}

func (w *worker) getAll(ctx context.Context) error {
	namespace := w.Set.namespace()
	for _, name := range w.names {
		if _, err := w.contender.Get(ctx, namespace, name); err != nil {
			return err
		}
	}
	return nil
}

// updateAll updates each Secret once, and waits until Get returns that.
func (w *worker) updateAll(ctx context.Context) (reply, error) {
	first := newEdition()
	r, err := w.stub.do(orderUpdateAll, 0)
	if err != nil {
		return r, err
	}
	for i := range w.names {
		if _, err := w.awaitEdition(ctx, i, first, time.Millisecond); err != nil {
			return r, err
		}
	}
	return r, nil
}

// awaitStreamsAgain waits until all streams are open again whose connections were cut. The server notices that later.
func (w *worker) awaitStreamsAgain(ctx context.Context) error {
	const noticed = 100 * time.Millisecond
	<-time.After(noticed)
	return w.awaitWatches(ctx, w.Set.Count)
}
