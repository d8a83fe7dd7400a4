// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/test/bench/contender"
)

// deletions is how many Secrets are deleted, one after the other.
const deletions = 200

// measureDeletion gets all Secrets, and deletes one after the other. It measures from the response until Get returns
// that the Secret is absent, and counts the Gets that still return it.
func (w *worker) measureDeletion(ctx context.Context) error {
	if err := w.start(ctx); err != nil {
		return err
	}
	for _, pod := range w.Set.pods(secretsPerPod) {
		w.contender.RegisterPod(pod)
	}
	for i := range w.names {
		if err := w.getFirst(ctx, i); err != nil {
			return err
		}
	}
	var took []time.Duration
	stale := 0
	for _, name := range w.names {
		if err := w.deleteSecret(ctx, name); err != nil {
			return err
		}
		responded := time.Now()
		for {
			_, err := w.contender.Get(ctx, w.Set.namespace(), name)
			if apierrors.IsNotFound(err) {
				break
			}
			if err != nil || time.Since(responded) > time.Minute {
				return fmt.Errorf("waiting until Get returns that %s is absent: %w", name, err)
			}
			stale++
		}
		took = append(took, time.Since(responded))
	}
	for i := range w.names { // for the next contender
		if _, err := w.server.CoreV1().Secrets(w.Set.namespace()).Create(ctx, w.Set.secret(i, 0), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	w.round.AddPercentiles(w.Scenario, took)
	w.round.Values[w.Scenario+"-stale-gets"] = float64(stale)
	return nil
}

// deleteSecret deletes a Secret, by the contender's client if it has one that deletes.
func (w *worker) deleteSecret(ctx context.Context, name string) error {
	if client, ok := w.contender.(contender.Deleter); ok {
		return client.Delete(ctx, w.Set.namespace(), name)
	}
	return w.server.CoreV1().Secrets(w.Set.namespace()).Delete(ctx, name, metav1.DeleteOptions{})
}
