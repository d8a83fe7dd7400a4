// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/reflector"
)

// pods are the pods of a namespace, of a node, or all, in a store that is kept equal to the server.
type pods struct {
	reflector *reflector.Reflector
	queue     *cache.RealFIFO
	store     cache.Indexer // for any number of readers; only process writes it
	report    func(line string)
}

// newPods returns the pods of a namespace and a node; an empty name stands for all. It starts nothing. report is called
// for each change, in order, while the queue is locked.
func newPods(client kubernetes.Interface, namespace, node string, report func(line string)) *pods {
	p := &pods{report: report}
	p.store = cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	// The queue compares each new state with the store, to find what was deleted while no stream was open.
	p.queue = cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{KnownObjects: p.store})
	selector := fields.Everything()
	if node != "" {
		selector = fields.OneTermEqualSelector("spec.nodeName", node)
	}
	source := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", namespace, selector)
	p.reflector = reflector.New(source, p.queue, reflector.Options{Name: "pods", Resource: "pods"})
	return p
}

// run keeps the store equal to the server until ctx ends. It returns when all that it started has ended.
func (p *pods) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		p.reflector.Run(ctx) // logs failures, and tries again
		p.queue.Close()
		return nil
	})
	group.Go(func() error {
		for {
			if _, err := p.queue.Pop(p.process); errors.Is(err, cache.ErrFIFOClosed) {
				return nil
			} else if err != nil {
				return err
			}
		}
	})
	return group.Wait()
}

// process stores and reports what the queue delivers.
func (p *pods) process(popped any, _ bool) error {
	for _, delta := range popped.(cache.Deltas) {
		old, exists, err := p.store.Get(delta.Object)
		switch {
		case err != nil:
			return err
		case delta.Type == cache.Deleted:
			err = p.store.Delete(delta.Object)
			p.report(lineOf("deleted", delta.Object))
		case !exists:
			err = p.store.Add(delta.Object)
			p.report(lineOf("added", delta.Object))
		case old.(*corev1.Pod).ResourceVersion != delta.Object.(*corev1.Pod).ResourceVersion:
			err = p.store.Update(delta.Object)
			p.report(lineOf("updated", delta.Object))
		}
		// Else the pod is part of the state with which a stream begins, and has not changed.
		if err != nil {
			return err
		}
	}
	return nil
}

// lineOf describes a change of a pod. A tombstone holds the last known state.
func lineOf(change string, object any) string {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		return lineOf(change, tombstone.Obj) + "  (while no stream was open)"
	}
	pod := object.(*corev1.Pod)
	return fmt.Sprintf("%-8s %-15s %-8s %s", change, pod.Namespace+"/"+pod.Name, pod.Status.Phase, cmp.Or(pod.Spec.NodeName, "no node"))
}
