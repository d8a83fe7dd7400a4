// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/clients"
)

// notFound returns the error of client-go for a proxy's answer to a path that is not
// served.
func notFound() *apierrors.StatusError {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "GET", corev1.Resource("secrets"), "", "default backend", 0, true)
}

// A path that is not served was taken for an absent object, and a node agent removed
// the files of a running pod.
func TestIssue8NotServedIsNotAbsent(t *testing.T) {
	tests := map[string]struct {
		options objectcache.WatchOptions
		stale   bool
	}{
		"never synced":          {},
		"as long as ctx allows": {options: objectcache.WatchOptions{RefusalGrace: -1}},
		"synced, then stale":    {options: objectcache.WatchOptions{MaxStaleness: time.Minute}, stale: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, test.options, func(t *testing.T, r *rig) {
				r.create("tls")
				if test.stale {
					r.AddReference(namespace, "tls", "pod")
					r.mustGet("tls")
				}
				r.refuse(notFound())
				r.server.CloseStreams(nil)
				r.AddReference(namespace, "tls", "pod")
				time.Sleep(2 * time.Minute)
				_, err := r.get("tls", 5*time.Second)
				status, _ := r.Status(namespace, "tls")
				for from, err := range map[string]error{"Get": err, "Status": status.LastError} {
					var served *resource.NotServedError
					if apierrors.IsNotFound(err) || !errors.As(err, &served) || served.Code != http.StatusNotFound {
						t.Errorf("%s: got %v, want a NotServedError, and not NotFound", from, err)
					}
				}
				if !errors.Is(err, objectcache.ErrNotSynced) || errors.Is(err, objectcache.ErrStale) != test.stale {
					t.Errorf("Get: got %v, want ErrNotSynced, and ErrStale: %v", err, test.stale)
				}
				r.refuse(nil)
				time.Sleep(2100 * time.Millisecond) // the last refusal is old
				r.mustGetWithin("tls", time.Minute)
				r.remove("tls")
				if _, err := r.get("tls", time.Second); !apierrors.IsNotFound(err) {
					t.Errorf("deleted: got %v, want NotFound", err)
				}
			})
		})
	}
}

// The cause of a caller's context may be the NotFound of another object.
func TestIssue8AnotherObjectsNotFound(t *testing.T) {
	beforeRun(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.AddReference(namespace, "tls", "pod")
		cause := apierrors.NewNotFound(corev1.Resource("configmaps"), "other")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, err := r.Get(ctx, namespace, "tls")
		if apierrors.IsNotFound(err) || !errors.Is(err, cause) {
			t.Errorf("got %v, want the cause, and not NotFound", err)
		}
	})
}

// A 404 of the path says what answered, and what to check: a CustomResourceDefinition only
// if the kind may have one. The log has the same text as the error of Get.
func TestNotServedSaysWhatAnswered(t *testing.T) {
	const (
		proxy   = "is not an API server's: look for a proxy, or a wrong path in the URL of the server"
		crd     = "CustomResourceDefinition"
		builtIn = "check the version, the resource and the path in the URL of the server"
	)
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	ingresses := networkingv1.SchemeGroupVersion.WithResource("ingresses")
	gateways := schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}
	tests := map[string]struct {
		resource                schema.GroupVersionResource
		contentType, body, want string
	}{
		"a page":                          {secrets, "text/html", "<!DOCTYPE html><p>" + canary, "text/html, " + proxy},
		"a page, custom":                  {gateways, "text/html; charset=utf-8", "<html>" + canary, "text/html, " + proxy},
		"a default backend":               {secrets, "text/plain", "default backend - " + canary, "text/plain, " + proxy},
		"nothing":                         {secrets, "", "", "text/plain, " + proxy},
		"kube-apiserver's mux":            {secrets, "text/plain", "404 page not found\n", builtIn},
		"kube-apiserver's mux, a dot":     {ingresses, "text/plain", "404 page not found\n", builtIn},
		"kube-apiserver's mux, custom":    {gateways, "text/plain; charset=utf-8", "404 page not found\n", crd},
		"the index of a server, custom":   {gateways, "application/json", `{"paths":["` + canary + `"]}`, crd},
		"JSON that is no Status, builtin": {secrets, "application/json", `{"message":"` + canary + `"}`, builtIn},
	}
	for name, test := range tests {
		for strategy, options := range allStrategies {
			t.Run(name+"/"+strategy, func(t *testing.T) {
				onCustomServer(t, func(t *testing.T, server *apiserver.Server) {
					server.Wrap(func(w http.ResponseWriter, _ *http.Request, _ apiserver.Request, _ http.HandlerFunc) {
						w.Header()["Content-Type"] = []string{test.contentType}
						w.WriteHeader(http.StatusNotFound)
						_, _ = io.WriteString(w, test.body)
					})
					store, err := objectcache.NewStore(clients.Dynamic(dynamicClient(t, server.Config()), test.resource), options)
					if err != nil {
						t.Fatal(err)
					}
					logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
					stop := runStore(klog.NewContext(t.Context(), logger), t, store)
					defer stop()
					store.AddReference(namespace, "tls", "owner")
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					_, err = store.Get(ctx, namespace, "tls")
					var unserved *resource.NotServedError
					if !errors.As(err, &unserved) {
						t.Fatalf("Get: got %v, want a NotServedError", err)
					}
					text := unserved.Error()
					if unserved.IsForeign() != strings.Contains(text, proxy) {
						t.Errorf("foreign: got %v, and the text %s", unserved.IsForeign(), text)
					}
					if !strings.Contains(text, test.want) || strings.Contains(text, crd) != (test.want == crd) || strings.Contains(text, canary) {
						t.Errorf("Get: got %s, want %s in it", text, test.want)
					}
					if log := logText(logger); strategy != "direct" && !strings.Contains(log, text) {
						t.Errorf("log: got %s, want the error of Get in it:\n%s", log, text)
					}
				})
			})
		}
	}
}
