// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/history"
)

// The keys of an object's data: the number of the write, and bytes that give the object its size.
const (
	writeKey   = "write"
	fillingKey = "filling"
)

// kind is Secrets or ConfigMaps: how they are written, and the manager under test.
type kind interface {
	put(ctx context.Context, o *object, create bool) (history.State, error)
	delete(ctx context.Context, name string) error
	read(ctx context.Context, name string) (history.State, error)
	get(ctx context.Context, name string) (history.State, error)
	tryGet(name string) (history.State, error)
	follow(ctx context.Context, yield func(name string, s history.State, err error))
	run(ctx context.Context) error
	register(pod *corev1.Pod)
	unregister(pod *corev1.Pod)
	stats() objectcache.Stats
}

// client is a client-go client of one kind in the namespace.
type client[T any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
	Get(context.Context, string, metav1.GetOptions) (T, error)
}

// kindOf implements kind. client belongs to the writers, and does not use the network with faults.
type kindOf[T cache.Object] struct {
	namespace string
	client    client[T]
	manager   *manager.Manager[T]
	object    func(m metav1.ObjectMeta, data map[string][]byte, immutable *bool) T
	content   func(T) (data map[string][]byte, immutable *bool)
}

// put creates or updates an object with its newest write.
func (k kindOf[T]) put(ctx context.Context, o *object, create bool) (history.State, error) {
	object := k.object(metav1.ObjectMeta{Name: o.name}, map[string][]byte{
		writeKey:   []byte(strconv.Itoa(o.writes)),
		fillingKey: bytes.Repeat([]byte{byte(o.writes)}, o.size),
	}, &o.immutable)
	var err error
	if create {
		object, err = k.client.Create(ctx, object, metav1.CreateOptions{})
	} else {
		object, err = k.client.Update(ctx, object, metav1.UpdateOptions{})
	}
	return k.state(object, err)
}

func (k kindOf[T]) delete(ctx context.Context, name string) error {
	return k.client.Delete(ctx, name, metav1.DeleteOptions{})
}

// read returns the state on the server.
func (k kindOf[T]) read(ctx context.Context, name string) (history.State, error) {
	return k.state(k.client.Get(ctx, name, metav1.GetOptions{}))
}

// get returns the state in the manager.
func (k kindOf[T]) get(ctx context.Context, name string) (history.State, error) {
	return k.state(k.manager.Get(ctx, k.namespace, name))
}

// tryGet returns the state in the manager without waiting.
func (k kindOf[T]) tryGet(name string) (history.State, error) {
	return k.state(k.manager.TryGet(k.namespace, name))
}

// follow calls yield for each change of an object that exists or is absent, until ctx ends.
func (k kindOf[T]) follow(ctx context.Context, yield func(name string, s history.State, err error)) {
	for change := range k.manager.Changes(ctx) {
		if change.Err != nil && !apierrors.IsNotFound(change.Err) {
			continue // refused
		}
		s, err := k.state(change.Object, change.Err)
		yield(change.Key.Name, s, err)
	}
}

func (k kindOf[T]) run(ctx context.Context) error { return k.manager.Run(ctx) }
func (k kindOf[T]) register(pod *corev1.Pod)      { k.manager.RegisterPod(pod) }
func (k kindOf[T]) unregister(pod *corev1.Pod)    { k.manager.UnregisterPod(pod) }
func (k kindOf[T]) stats() objectcache.Stats      { return k.manager.Stats() }

// errData is returned for data that put did not write.
var errData = errors.New("the data was not written in one piece")

// state returns the state of an object, whose data must be what put wrote.
func (k kindOf[T]) state(object T, err error) (history.State, error) {
	if err != nil {
		return history.State{}, err
	}
	data, immutable := k.content(object)
	write, err := strconv.Atoi(string(data[writeKey]))
	filling := data[fillingKey]
	if err != nil || bytes.Count(filling, []byte{byte(write)}) != len(filling) {
		return history.State{}, fmt.Errorf("%s: %w", object.GetName(), errData)
	}
	return history.State{
		UID: object.GetUID(), Version: object.GetResourceVersion(), Digest: digestOf(write),
		Immutable: immutable != nil && *immutable,
	}, nil
}

// digestOf returns the digest of a write: nothing else has its number.
func digestOf(write int) string { return strconv.Itoa(write) }
