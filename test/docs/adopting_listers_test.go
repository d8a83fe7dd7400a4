// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corev1informers "k8s.io/client-go/informers/core/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/listers"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// The code of docs/adopting/virtual-kubelet.md.

// podListers returns listers of what the pods of a node reference, until ctx ends.
func podListers(ctx context.Context, config *rest.Config) (*listers.SecretLister, *listers.ConfigMapLister, error) {
	client, err := manager.ClientFor(config) // the node's own config: its rights are enough
	if err != nil {
		return nil, nil, err
	}
	options := objectcache.WatchOptions{
		AcquireOnGet: 5 * time.Minute, // a stream from the first Get until a while after the last
		Gate:         objectcache.NewGate(objectcache.GateOptions{Name: "cluster"}),
	}
	secrets, err1 := manager.NewSecrets(client, options)
	configMaps, err2 := manager.NewConfigMaps(client, options)
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, err
	}
	go func() { _ = secrets.Run(ctx) }()
	go func() { _ = configMaps.Run(ctx) }()
	wait := listers.Options{Timeout: 10 * time.Second} // then the pod starts without an optional variable
	secretLister, err1 := listers.Secrets(secrets, wait)
	configMapLister, err2 := listers.ConfigMaps(configMaps, wait)
	return secretLister, configMapLister, errors.Join(err1, err2)
}

type listedSecrets struct {
	corev1informers.SecretInformer // nil: only Lister is called
	lister                         corev1listers.SecretLister
}

func (i listedSecrets) Lister() corev1listers.SecretLister { return i.lister }

type listedConfigMaps struct {
	corev1informers.ConfigMapInformer // nil: only Lister is called
	lister                            corev1listers.ConfigMapLister
}

func (i listedConfigMaps) Lister() corev1listers.ConfigMapLister { return i.lister }

// A lister reads what nobody has registered.
func TestVirtualKubeletListers(t *testing.T) {
	server, _ := serveSecret()
	defer server.Close()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	secrets, configMaps, err := podListers(ctx, server.Config())
	check(t, err)
	var secretInformer corev1informers.SecretInformer = listedSecrets{lister: secrets}
	var configMapInformer corev1informers.ConfigMapInformer = listedConfigMaps{lister: configMaps}
	if secret, err := secretInformer.Lister().Secrets("shop").Get("tls"); err != nil || version(secret) != "1" {
		t.Errorf("Secret: got %v, %v, want version 1", secret, err)
	}
	if _, err := configMapInformer.Lister().ConfigMaps("shop").Get("absent"); !apierrors.IsNotFound(err) {
		t.Errorf("an absent ConfigMap: got %v, want NotFound", err)
	}
}

// The code of docs/adopting/traefik.md.

// usedSecrets references the Secrets that a configuration reads, for as long as each
// configuration reads them. Only the goroutine that makes configurations calls it.
type usedSecrets struct {
	secrets *manager.Manager[*corev1.Secret]
	lister  corev1listers.SecretLister
	used    map[types.NamespacedName]int // the last configuration that read it
	current int
}

func newUsedSecrets(config *rest.Config) (*usedSecrets, error) {
	client, err := manager.ClientFor(config)
	if err != nil {
		return nil, err
	}
	secrets, err := manager.NewSecrets(client, objectcache.WatchOptions{WatchImmutable: true})
	if err != nil {
		return nil, err
	}
	lister, err := listers.Secrets(secrets, listers.Options{})
	return &usedSecrets{secrets: secrets, lister: lister, used: map[types.NamespacedName]int{}}, err
}

// run calls changed for each change, until ctx ends.
func (u *usedSecrets) run(ctx context.Context, changed func(*corev1.Secret)) {
	go func() { _ = u.secrets.Run(ctx) }()
	for change := range u.secrets.Changes(ctx) {
		changed(change.Object) // nil if it is absent or refused
	}
}

// next begins a configuration, and forgets what the last one did not read.
func (u *usedSecrets) next() {
	for key, last := range u.used {
		if last < u.current {
			u.secrets.SetReferences(manager.Owner{Kind: "Configuration", Namespace: key.Namespace, Name: key.Name})
			delete(u.used, key)
		}
	}
	u.current++
}

// get reads a Secret, and keeps it until a configuration does not read it.
func (u *usedSecrets) get(namespace, name string) (*corev1.Secret, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if u.used[key] == 0 {
		u.secrets.SetReferences(manager.Owner{Kind: "Configuration", Namespace: namespace, Name: name}, key)
	}
	u.used[key] = u.current
	return u.lister.Secrets(namespace).Get(name)
}

// A Secret is referenced until a configuration does not read it.
func TestTraefikSecrets(t *testing.T) {
	server, _ := serveSecret()
	defer server.Close()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	server.Authorize(func(request apiserver.Request) bool { return request.Name != "forbidden" })
	u, err := newUsedSecrets(server.Config())
	check(t, err)
	changes := make(chan *corev1.Secret, 10)
	go u.run(ctx, func(secret *corev1.Secret) { changes <- secret })

	u.next()
	_, _ = u.get("shop", "tls") // may time out on a busy machine
	check(t, u.secrets.WaitForSync(ctx))
	if secret, err := u.get("shop", "tls"); err != nil || version(secret) != "1" {
		t.Fatalf("get: got %v, %v, want version 1", secret, err)
	}
	if secret := <-changes; version(secret) != "1" {
		t.Errorf("change: got %v, want version 1", secret)
	}
	_, _ = u.get("shop", "forbidden")
	if err := u.secrets.WaitForSync(ctx); !apierrors.IsForbidden(err) {
		t.Errorf("WaitForSync without the right: got %v, want Forbidden", err)
	}
	if _, err := u.get("shop", "forbidden"); !apierrors.IsForbidden(err) {
		t.Errorf("get without the right: got %v, want Forbidden", err)
	}
	u.next() // reads nothing
	if owners := u.secrets.OwnersOf("shop", "tls"); len(owners) != 1 {
		t.Errorf("owners during the next configuration: got %v, want one", owners)
	}
	u.next()
	if owners := u.secrets.OwnersOf("shop", "tls"); len(owners) != 0 {
		t.Errorf("owners after a configuration that did not read it: got %v, want none", owners)
	}
}
