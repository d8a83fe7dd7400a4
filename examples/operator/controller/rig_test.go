// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/examples/operator/webv1"
	"github.com/refwatch/refwatch/test/apiserver"
)

const (
	namespace = "default"
	// timeout bounds each wait. A test that passes does not reach it.
	timeout = time.Minute
	// agent is the user agent of the controller under test.
	agent = "controller-under-test"
	// canary is the data of all Secrets.
	canary = "canary-7391"
)

// rig is a server, and a client of a user who may do everything.
type rig struct {
	*testing.T

	server *apiserver.Server
	client client.WithWatch
}

func newRig(t *testing.T) *rig {
	server := apiserver.New(t, apiserver.Options{CustomResources: []apiserver.CustomResource{{
		Group: webv1.GroupVersion.Group, Version: webv1.GroupVersion.Version, Resource: "sites", Kind: "Site",
		StatusSubresource: true,
	}}})
	scheme := runtime.NewScheme()
	r := &rig{T: t, server: server}
	r.must(corev1.AddToScheme(scheme))
	r.must(webv1.AddToScheme(scheme))
	config := server.Config()
	config.QPS = -1
	var err error
	r.client, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	r.must(err)
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// allowSecrets lets the controller list and watch these Secrets only, by name. It may do everything else.
func (r *rig) allowSecrets(names ...string) {
	r.server.Authorize(func(request apiserver.Request) bool {
		return !strings.HasSuffix(request.UserAgent, agent) || request.Resource != "secrets" || slices.Contains(names, request.Name)
	})
}

// start starts the controller. The returned function stops it, waits for it, and returns the error of its Start.
func (r *rig) start(options Options) (stop func() error) {
	r.Helper()
	mgr, err := New(rest.AddUserAgent(r.server.Config(), agent), options)
	r.must(err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	var once bool
	stop = func() error {
		if once {
			return nil
		}
		once = true
		cancel()
		return <-ended
	}
	r.Cleanup(func() { r.must(stop()) })
	return stop
}

func (r *rig) createSecret(name string) {
	r.Helper()
	r.must(r.client.Create(r.Context(), secretOf(name, canary)))
}

func secretOf(name, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: map[string]string{"value": value},
	}
}

func (r *rig) createSite(name string, secrets ...string) {
	r.Helper()
	r.must(r.client.Create(r.Context(), &webv1.Site{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: webv1.SiteSpec{SecretNames: secrets},
	}))
}

// wantSite waits until the condition Ready of a Site has this reason and message, and done returns true for it.
func (r *rig) wantSite(name, reason, message string, done func(*webv1.Site) bool) *webv1.Site {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	watcher, err := r.client.Watch(ctx, &webv1.SiteList{}, client.InNamespace(namespace), client.MatchingFields{"metadata.name": name})
	r.must(err)
	defer watcher.Stop()
	var last metav1.Condition
	for event := range watcher.ResultChan() {
		site, ok := event.Object.(*webv1.Site)
		if !ok {
			break
		}
		if ready := meta.FindStatusCondition(site.Status.Conditions, webv1.Ready); ready != nil {
			last = *ready
		}
		if last.Reason == reason && last.Message == message && (done == nil || done(site)) {
			return site
		}
	}
	r.Fatalf("Site %s: got condition %+v, want reason %s, message %q", name, last, reason, message)
	return nil
}
