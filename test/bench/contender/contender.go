// SPDX-License-Identifier: Apache-2.0

// Package contender holds the contenders of the benchmark: several ways to keep the Secrets that pods reference, each
// set up as its users do.
package contender

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// Registrar is the part of a contender that pods are registered with. No two pods reference the same Secret.
type Registrar interface {
	RegisterPod(pod *corev1.Pod)
	UnregisterPod(pod *corev1.Pod)
}

// Contender keeps the Secrets that pods reference.
type Contender interface {
	Registrar
	// Get makes one attempt. It waits as long as the contender does by default, or until ctx ends.
	Get(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// Deleter is a contender whose client also deletes, and knows that it has.
type Deleter interface {
	Delete(ctx context.Context, namespace, name string) error
}

// Kind is one of the contenders.
type Kind struct {
	Name string
	// New starts the contender for Secrets of one namespace. What it starts ends with ctx, or with the process.
	New func(ctx context.Context, config *rest.Config, namespace string) (Contender, error)
	// Registrar returns the contender's manager over a store that does nothing. It is nil for contenders that have no
	// such parts.
	Registrar func() (Registrar, error)
	// StreamPerObject is false for a contender with one stream for the whole namespace.
	StreamPerObject bool
	// Special contenders are left out of most scenarios.
	Special bool
	// InOutages is false for contenders that are left out of outages.
	InOutages bool
}

// The names of the contenders that the results compare.
const (
	Refwatch = "refwatch"
	Kubelet  = "kubelet"
	Informer = "informer"
	Floor    = "floor"

	RefwatchNetHTTP   = "refwatch-nethttp"
	RefwatchFollowed  = "refwatch-followed"
	RefwatchRecent    = "refwatch-recent"
	ControllerRuntime = "controller-runtime"
	Direct            = "direct"
	Adapter           = "refwatch-adapter"
)

// Kinds are all contenders, in the order in which they are measured.
var Kinds = []Kind{
	{Name: Refwatch, New: newRefwatch, Registrar: refwatchRegistrar, StreamPerObject: true, InOutages: true},
	{Name: Kubelet, New: newKubelet, Registrar: kubeletRegistrar, StreamPerObject: true, InOutages: true},
	{Name: Informer, New: newInformer, StreamPerObject: true},
	{Name: Floor, New: newFloor, StreamPerObject: true, InOutages: true},
	{Name: ControllerRuntime, New: newControllerRuntime},
	{
		Name: RefwatchNetHTTP, New: newRefwatchNetHTTP, Registrar: refwatchRegistrar,
		StreamPerObject: true, InOutages: true, Special: true,
	},
	{Name: RefwatchFollowed, New: newRefwatchFollowed, StreamPerObject: true, Special: true},
	{Name: RefwatchRecent, New: newRefwatchRecent, StreamPerObject: true, Special: true},
	{Name: Direct, New: newDirect, Special: true},
	{Name: Adapter, New: newAdapter, Special: true},
}
