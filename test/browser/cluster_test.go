// SPDX-License-Identifier: Apache-2.0

package browser_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/connrotation"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/debug"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// cluster is an API server, a program that references its Secrets and ConfigMaps, and the page of that program.
type cluster struct {
	*testing.T
	server  *apiserver.Server
	handler http.Handler
	secrets *manager.Manager[*corev1.Secret]

	away        atomic.Bool // whether the network to the API server is cut
	connections *connrotation.Dialer
}

// newCluster returns a cluster with the objects of a small node agent: two are absent, one is forbidden, one immutable.
// crowd is how many Secrets of the namespace crowd are referenced beside them; each 15th of these is forbidden.
func newCluster(t *testing.T, crowd int) *cluster {
	c := &cluster{T: t, server: apiserver.New(t, apiserver.Options{})}
	c.connections = connrotation.NewDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		if c.away.Load() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	})
	config := c.server.Config()
	config.Dial = c.connections.DialContext
	connections := &debug.Connections{}
	client, err1 := manager.ClientFor(connections.Track(config))
	gate := objectcache.NewGate(objectcache.GateOptions{})
	secrets, err2 := manager.NewSecrets(client, objectcache.WatchOptions{Gate: gate})
	configMaps, err3 := manager.NewConfigMaps(client, objectcache.WatchOptions{Gate: gate})
	handler, err4 := debug.NewHandler(debug.Options{
		Title:       "Checkout agent",
		Sources:     map[string]debug.Source{"secrets": secrets, "configmaps": configMaps},
		Gates:       map[string]*objectcache.Gate{"production": gate},
		Connections: connections,
	})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	c.handler, c.secrets = handler, secrets
	c.fill(crowd)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = secrets.Run(ctx) })
	running.Go(func() { _ = configMaps.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		c.connections.CloseAll()
	})
	for i, app := range []string{"checkout", "catalog", "search", "mail", "billing", "login"} {
		pod := manager.Owner{Kind: "Pod", Namespace: "shop", Name: fmt.Sprintf("%s-7d9f8c6b5-x%d2kq", app, i), UID: types.UID(fmt.Sprintf("5f0c9a1e-77d2-4b7e-9c1a-00000000000%d", i))}
		keys := []types.NamespacedName{{Namespace: "shop", Name: app + "-tls"}, {Namespace: "shop", Name: "registry-pull"}}
		if app == "billing" {
			keys = append(keys, types.NamespacedName{Namespace: "shop", Name: "bank-credentials"})
		}
		secrets.SetReferences(pod, keys...)
		configMaps.SetReferences(pod, types.NamespacedName{Namespace: "shop", Name: app + "-settings"}, types.NamespacedName{Namespace: "shop", Name: "feature-flags"})
	}
	for i := range crowd {
		owner := manager.Owner{Kind: "Pod", Namespace: "crowd", Name: fmt.Sprintf("worker-%04d", i), UID: types.UID(fmt.Sprintf("7b1d2c3e-77d2-4b7e-9c1a-0000000%05d", i))}
		secrets.SetReferences(owner, types.NamespacedName{Namespace: "crowd", Name: nameInCrowd(i)})
	}
	return c
}

// nameInCrowd returns the name of a Secret of the namespace crowd. Each 15th is forbidden.
func nameInCrowd(i int) string {
	if i%15 == 0 {
		return fmt.Sprintf("vault-%04d", i)
	}
	return fmt.Sprintf("worker-%04d-tls", i)
}

// fill creates the objects.
func (c *cluster) fill(crowd int) {
	core := c.server.Client().CoreV1()
	var err error
	for _, name := range []string{"shop", "crowd"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err2 := core.Namespaces().Create(c.Context(), namespace, metav1.CreateOptions{})
		err = errors.Join(err, err2)
	}
	for _, name := range []string{"checkout-tls", "catalog-tls", "search-tls", "mail-tls", "billing-tls", "registry-pull"} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"key": "canary"}}
		_, err2 := core.Secrets("shop").Create(c.Context(), secret, metav1.CreateOptions{})
		err = errors.Join(err, err2)
	}
	for _, name := range []string{"checkout-settings", "catalog-settings", "search-settings", "mail-settings", "login-settings", "feature-flags"} {
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"key": "canary"}}
		if name == "feature-flags" {
			configMap.Immutable = new(true)
		}
		_, err2 := core.ConfigMaps("shop").Create(c.Context(), configMap, metav1.CreateOptions{})
		err = errors.Join(err, err2)
	}
	for i := range crowd {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: nameInCrowd(i)}, StringData: map[string]string{"key": "canary"}}
		_, err2 := core.Secrets("crowd").Create(c.Context(), secret, metav1.CreateOptions{})
		err = errors.Join(err, err2)
	}
	if err != nil {
		c.Fatal(err)
	}
	c.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
		if request.Name != "bank-credentials" && !strings.HasPrefix(request.Name, "vault-") {
			return nil
		}
		status := apierrors.NewForbidden(corev1.Resource("secrets"), request.Name, fmt.Errorf(
			`User "system:serviceaccount:shop:agent" cannot list resource "secrets" in API group "" in the namespace %q`, request.Namespace)).Status()
		return &status
	})
}

// rotate changes the data of a Secret, and returns its new version.
func (c *cluster) rotate(name string) string {
	c.Helper()
	secrets := c.server.Client().CoreV1().Secrets("shop")
	secret, err := secrets.Get(c.Context(), name, metav1.GetOptions{})
	if err == nil {
		secret.StringData = map[string]string{"key": secret.ResourceVersion}
		secret, err = secrets.Update(c.Context(), secret, metav1.UpdateOptions{})
	}
	if err != nil {
		c.Fatal(err)
	}
	return secret.ResourceVersion
}

// cut cuts the network to the API server, or mends it.
func (c *cluster) cut(away bool) {
	c.away.Store(away)
	if away {
		c.connections.CloseAll()
	}
}

// serve serves the page at an address, or at a free one, until the returned function is called.
func (c *cluster) serve(address string) (string, func()) {
	c.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		c.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/refwatch", c.handler)
	server := &http.Server{Handler: mux}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	stop := sync.OnceFunc(func() {
		_ = server.Close()
		<-ended
	})
	c.Cleanup(stop)
	return listener.Addr().String(), stop
}
