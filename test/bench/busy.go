// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// busyWrites is how many ConfigMaps the other client of a busy server writes in a second. It writes busyObjects in
	// turn, and at most busyAtATime at a time.
	busyWrites, busyObjects, busyAtATime = 200, 100, 64
	// busyNamespace has the ConfigMaps. No contender reads them.
	busyNamespace = "bench-busy"
)

// busyWriter writes ConfigMaps until it is killed, in a process of its own.
var busyWriter = scenario{name: "busy-writer", measure: (*worker).writeUntilKilled, writer: true}

// measureSyncBusy measures how long it takes to register and get all Secrets while another client writes ConfigMaps.
func (w *worker) measureSyncBusy(ctx context.Context) error {
	return w.whileBusy(ctx, func(ctx context.Context) error {
		if err := w.start(ctx); err != nil {
			return err
		}
		before, err := w.server.version(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		figure := fmt.Sprint("sync-busy-control-plane-cpu-ms-per-object-", w.Set.Count)
		load := func() error { return w.load(ctx, w.Set.pods(secretsPerPod)) }
		if err := w.controlPlaneCPU(figure, time.Duration(w.Set.Count)*time.Millisecond, load); err != nil {
			return err
		}
		after, err := w.server.version(ctx)
		for name, value := range map[string]float64{
			"seconds":           w.seconds,
			"failed-gets":       float64(w.failed.Load()),
			"writes-per-second": float64(after-before) / time.Since(began).Seconds(),
		} {
			w.round.Values[fmt.Sprint("sync-busy-", name, "-", w.Set.Count)] = value
		}
		return err
	})
}

// measureFirstGetBusy measures the same as measureFirstGet while another client writes ConfigMaps.
func (w *worker) measureFirstGetBusy(ctx context.Context) error {
	return w.whileBusy(ctx, w.measureFirstGet)
}

// whileBusy runs measure while another process writes ConfigMaps to the same server.
func (w *worker) whileBusy(ctx context.Context, measure func(context.Context) error) error {
	const begun = busyWrites / 4 // writes before measure
	writer := w.job
	writer.Scenario = busyWriter.name
	first, err := w.server.version(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	writing, stop := context.WithCancel(ctx)
	group.Go(func() error {
		_, err := (&bench{}).work(writing, writer)
		if writing.Err() != nil {
			return nil // stopped
		}
		return errors.Join(errors.New("the busy writer has ended"), err)
	})
	group.Go(func() error {
		defer stop()
		const interval = 20 * time.Millisecond
		err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
			now, err := w.server.version(ctx)
			return now >= first+begun+busyObjects, err // it has made its objects before
		})
		if err != nil {
			return err
		}
		return measure(ctx)
	})
	return group.Wait()
}

// version returns the newest resource version of all objects, which grows by one with every write.
func (s server) version(ctx context.Context) (int64, error) {
	list, err := s.CoreV1().ConfigMaps(busyNamespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, fmt.Errorf("reading the newest resource version: %w", err)
	}
	return strconv.ParseInt(list.ResourceVersion, 10, 64)
}

// writeUntilKilled makes ConfigMaps, and then writes one after another at equal intervals. A write that is late for its
// time is sent at once, so that the rate is that of the server's answers at worst.
func (w *worker) writeUntilKilled(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: busyNamespace}}
	_, err := w.server.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	objects := w.server.CoreV1().ConfigMaps(busyNamespace)
	for i := range busyObjects {
		_, err := objects.Create(ctx, busyObject(i), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // of an earlier round
			_, err = objects.Update(ctx, busyObject(i), metav1.UpdateOptions{})
		}
		if err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(busyAtATime)
	began := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		<-time.After(time.Until(began.Add(time.Duration(n) * time.Second / busyWrites)))
		group.Go(func() error {
			_, err := objects.Update(ctx, busyObject(n%busyObjects), metav1.UpdateOptions{})
			return err
		})
	}
	return group.Wait()
}

// busyObject returns a new edition of a ConfigMap.
func busyObject(i int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: busyNamespace, Name: fmt.Sprint("busy-", i)},
		Data:       map[string]string{dataKey: strconv.FormatInt(newEdition(), 10)},
	}
}
