// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/e2e"
)

// The server cannot fill its watch cache of one kind, because one object cannot be decoded, and answers 429 for all
// objects of that kind. Objects of another kind on the same Gate are served.
func TestKindThrottled(t *testing.T) {
	t.Parallel()
	const fault = "Secrets throttled, ConfigMaps not"
	cluster := e2e.New(t, e2e.Options{})
	options := objectcache.WatchOptions{Gate: reflector.NewGate(reflector.GateOptions{})}
	r := newRig(t, cluster, "kinds", nil, options)
	names := r.prepare(many)
	maps := r.admin.CoreV1().ConfigMaps(r.namespace)
	r.each(names, func(ctx context.Context, name string) error {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": name}}
		_, err := maps.Create(ctx, object, createOptions)
		return err
	})
	if err := cluster.Corrupt(r.Context(), "secrets", r.namespace, names[0]); err != nil {
		t.Fatal(err)
	}
	r.eventually(func() error {
		return isThrottled(r.admin.CoreV1().Secrets(r.namespace).List(r.Context(), metav1.ListOptions{}))
	})
	r.reference(names[:many/2]...)
	stop := r.startCallers(names[:many/2])

	others := newConfigMaps(t, r.client, options)
	e2e.Run(t, others.Run)
	r.others = many / 2
	began := time.Now()
	for _, name := range names[many/2:] {
		others.AddReference(r.namespace, name, owner)
	}
	r.eventually(func() error {
		for _, name := range names[many/2:] {
			if got, err := others.Get(endedContext, r.namespace, name); err != nil || got.Data["value"] != name {
				return fmt.Errorf("%s: got %v and error %w", name, got, err)
			}
		}
		return nil
	})
	r.observe(fault, "500 ConfigMaps are served, while Gets request all 500 Secrets", "all", time.Since(began))
	began = time.Now()
	others.AddReference(r.namespace, names[0], owner)
	ctx, cancel := context.WithTimeout(r.Context(), r.timeout)
	defer cancel()
	if _, err := others.Get(ctx, r.namespace, names[0]); err != nil {
		t.Errorf("%s: got error %v, want none", names[0], err)
	}
	r.observe(fault, "a new ConfigMap that a Get waits for", "the object", time.Since(began))
	if err := r.watching(names[:1]); err == nil {
		t.Error("got a healthy Secret, want all throttled until the end")
	}
	stop()
}

func isThrottled(_ any, err error) error {
	if !apierrors.IsTooManyRequests(err) {
		return fmt.Errorf("got error %w, want 429", err)
	}
	return nil
}
