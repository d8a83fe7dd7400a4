// SPDX-License-Identifier: Apache-2.0

// Package contender holds what is compared: each file makes one of several ways to keep the secrets that pods
// reference, as who uses it would.
package contender

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Contender keeps the secrets that pods reference.
type Contender interface {
	RegisterPod(pod *corev1.Pod)
	UnregisterPod(pod *corev1.Pod)
	// Get makes one attempt, and waits as long as the contender does by itself, or ctx allows.
	Get(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// Options are what a contender gets to work with.
type Options struct {
	// Config reaches the server, with protobuf and without a limit of requests per second.
	Config *rest.Config
	// Namespace is where all secrets are.
	Namespace string
	// Follow is called with each state of a secret that arrives, from any goroutine, by contenders that can
	// tell. Nil: nobody wants to know, and nothing is set up for it.
	Follow func(*corev1.Secret)
}

// Kind is one of the contenders.
type Kind struct {
	Name string
	// New starts it. What it starts ends with ctx, or with the process.
	New func(ctx context.Context, options Options) (Contender, error)
	// Follows tells whether it can deliver changes.
	Follows bool
	// StreamPerObject tells whether it opens a stream for each object: one that lists a namespace has just one.
	StreamPerObject bool
}

// Kinds are all contenders, in the order in which they take turns.
var Kinds = []Kind{
	{Name: "refwatch", New: newRefwatch(false), Follows: true, StreamPerObject: true},
	{Name: "kubelet", New: newKubelet, StreamPerObject: true},
	{Name: "informer", New: newInformer, Follows: true, StreamPerObject: true},
	{Name: "floor", New: newFloor, Follows: true, StreamPerObject: true},
	{Name: "refwatch-clientgo", New: newRefwatch(true), Follows: true, StreamPerObject: true},
	{Name: "controller-runtime", New: newControllerRuntime, Follows: true},
}

// ByName returns the kind of that name.
func ByName(name string) (Kind, error) {
	for _, kind := range Kinds {
		if kind.Name == name {
			return kind, nil
		}
	}
	return Kind{}, fmt.Errorf("there is no contender %q", name)
}

// newClient makes a client as kubelet and other users of client-go have it.
func newClient(config *rest.Config) (kubernetes.Interface, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client, nil
}
