// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/refwatch/refwatch/manager/controllerruntime"
)

// known is what a handler knows after its events: the value of each Secret.
type known struct {
	t      *testing.T
	mu     sync.Mutex
	values map[string]string
}

func (k *known) OnAdd(object any, _ bool) { k.set(object.(*corev1.Secret)) }

func (k *known) OnUpdate(before, after any) {
	if before.(*corev1.Secret).UID != after.(*corev1.Secret).UID {
		k.t.Errorf("an update from one object %s to another", after.(*corev1.Secret).Name)
	}
	k.set(after.(*corev1.Secret))
}

func (k *known) OnDelete(object any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.values, object.(*corev1.Secret).Name)
}

func (k *known) set(secret *corev1.Secret) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.values[secret.Name] = string(secret.Data["value"])
}

// addKnown adds a handler to the informer of Secrets.
func (r *rig) addKnown() *known {
	k := &known{t: r.t, values: map[string]string{}}
	informer, err := r.cache.GetInformer(r.t.Context(), &corev1.Secret{})
	if err != nil {
		r.t.Error(err)
		return k
	}
	var handler toolscache.ResourceEventHandler = k
	if _, err := informer.AddEventHandler(handler); err != nil {
		r.t.Error(err)
	}
	return k
}

const churned = 60 // Secrets

func churnedName(i int) string { return fmt.Sprintf("s%d", i%churned) }

// churn writes, deletes, gets and removes the informer, and ends streams, for half a minute.
func (r *rig) churn() {
	var all sync.WaitGroup
	repeat := func(pause time.Duration, f func(i int)) {
		all.Go(func() {
			for i := 0; time.Duration(i)*pause < 30*time.Second; i++ {
				f(i)
				time.Sleep(pause)
			}
		})
	}
	ctx, secrets := r.t.Context(), r.client.CoreV1().Secrets(namespace)
	for start := range 3 {
		repeat(300*time.Millisecond, func(i int) {
			name := churnedName(7*i + start)
			switch i % 4 {
			case 0:
				_ = secrets.Delete(ctx, name, metav1.DeleteOptions{})
			case 1:
				_, _ = secrets.Update(ctx, secretNamed(name, fmt.Sprint(i)), metav1.UpdateOptions{})
			default:
				_, _ = secrets.Create(ctx, secretNamed(name, fmt.Sprint(i)), metav1.CreateOptions{})
			}
		})
		repeat(150*time.Millisecond, func(i int) {
			ctx, cancel := context.WithTimeout(ctx, time.Duration(i%3)*100*time.Millisecond)
			defer cancel()
			_ = r.cache.Get(ctx, types.NamespacedName{Namespace: namespace, Name: churnedName(i + start)}, &corev1.Secret{})
		})
	}
	repeat(7*time.Second, func(int) {
		r.addKnown()
		r.server.CloseStreams(nil)
		time.Sleep(4 * time.Second)
		_ = r.cache.RemoveInformer(ctx, &corev1.Secret{})
	})
	all.Wait()
}

// After everything has happened at once, handlers, Get and the server agree.
func TestChurn(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{IdleTimeout: time.Second}, cache.Options{}, func(t *testing.T, r *rig) {
		r.churn()
		handler := r.addKnown()
		secrets := r.client.CoreV1().Secrets(namespace)
		for i := range churned {
			_, _ = r.get(churnedName(i))
		}
		for i := range churned { // a third is created again, and a third is deleted
			if i%3 < 2 {
				_ = secrets.Delete(t.Context(), churnedName(i), metav1.DeleteOptions{})
			}
			if i%3 < 1 {
				_, _ = secrets.Create(t.Context(), secretNamed(churnedName(i), "new"), metav1.CreateOptions{})
			}
		}
		time.Sleep(5 * time.Minute)
		list, err := secrets.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for _, secret := range list.Items {
			want[secret.Name] = string(secret.Data["value"])
		}
		handler.mu.Lock()
		if !maps.Equal(handler.values, want) {
			t.Errorf("the handler knows %v, want %v", handler.values, want)
		}
		handler.mu.Unlock()
		for i := range churned {
			name := churnedName(i)
			if value, exists := want[name]; exists {
				r.wantValue(name, value)
			} else if _, err := r.get(name); !apierrors.IsNotFound(err) {
				t.Errorf("%s: got %v, want NotFound", name, err)
			}
		}
	})
}
