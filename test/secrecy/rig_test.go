// SPDX-License-Identifier: Apache-2.0

package secrecy_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/canary"
)

const namespace = "default"

// rig is an API server whose answers to reads can be replaced by a fault, in one bubble.
type rig struct {
	*testing.T

	canaries *canary.Canaries
	log      *canary.Log
	server   *apiserver.Server
	config   *rest.Config
	fault    atomic.Value // an http.HandlerFunc, nil for none
}

// newRig starts the server.
func newRig(t *testing.T, canaries *canary.Canaries, out *canary.Log) *rig {
	server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
	r := &rig{T: t, canaries: canaries, log: out, server: server, config: resource.ConfigFor(server.Config())}
	server.Wrap(func(w http.ResponseWriter, request *http.Request, _ apiserver.Request, next http.HandlerFunc) {
		if fault, _ := r.fault.Load().(http.HandlerFunc); fault != nil && request.Method == http.MethodGet {
			next = fault
		}
		next(w, request)
	})
	return r
}

// quiet returns ctx with a logger that logs nothing: client-go logs the bodies of the
// test's own writes.
func quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// write creates or updates the Secret "tls" with a new value, and returns the value. The
// value is also in an annotation, where kubectl apply leaves one.
func (r *rig) write(change func(*corev1.Secret)) string {
	r.Helper()
	value := r.canaries.New()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "tls",
			Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: value},
		},
		Data: map[string][]byte{"password": []byte(value)},
	}
	if change != nil {
		change(secret)
	}
	secrets := r.server.Client().CoreV1().Secrets(namespace)
	_, err := secrets.Update(quiet(r.Context()), secret, metav1.UpdateOptions{})
	if err != nil {
		_, err = secrets.Create(quiet(r.Context()), secret, metav1.CreateOptions{})
	}
	if err != nil {
		r.Fatal(err)
	}
	synctest.Wait()
	return value
}
