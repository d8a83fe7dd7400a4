// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

var (
	_ client.Reader                      = (*controllerruntime.Reader[*corev1.Secret])(nil)
	_ source.Source                      = (*controllerruntime.Source)(nil)
	_ ctrlmanager.Runnable               = controllerruntime.Runnable{}
	_ ctrlmanager.LeaderElectionRunnable = controllerruntime.Runnable{}
)

// referencing reconciles ConfigMaps that name Secrets, and sets the references itself.
type referencing struct {
	client  client.Client
	secrets *manager.Manager[*corev1.Secret]
	seen    events
	foreign atomic.Bool // there was a request for the owner x, which is of another kind
}

func (r *referencing) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	owner := manager.Owner{Kind: "ConfigMap", Namespace: request.Namespace, Name: request.Name}
	object := &corev1.ConfigMap{}
	if err := r.client.Get(ctx, request.NamespacedName, object); err != nil {
		if request.Name == "x" {
			r.foreign.Store(true)
		}
		r.secrets.SetReferences(owner)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	owner.UID = object.UID
	name := object.Data["secret"]
	r.secrets.SetReferences(owner, types.NamespacedName{Namespace: request.Namespace, Name: name})
	switch secret, err := r.secrets.TryGet(request.Namespace, name); {
	case errors.Is(err, objectcache.ErrNotSynced) && !apierrors.IsForbidden(err): // a request will come
	case err != nil:
		r.seen.add("%s: %s", request.Name, apierrors.ReasonForError(err))
	default:
		r.seen.add("%s: %s", request.Name, secret.Data["value"])
	}
	return ctrl.Result{}, nil
}

// A controller that sets the references of its objects is called for each change, without
// an informer of Secrets: with the first state, absent and refused ones, too.
func TestSource(t *testing.T) {
	onServer(t, func(t *testing.T, server *apiserver.Server) {
		server.Authorize(func(request apiserver.Request) bool { return onlyNamed(request) && request.Name != "refused" })
		m, err := ctrl.NewManager(server.Config(), ctrl.Options{
			Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
		})
		if err != nil {
			t.Fatal(err)
		}
		secrets, err := manager.NewSecrets(server.Client(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Add(controllerruntime.NewRunnable(secrets)); err != nil {
			t.Fatal(err)
		}
		owners, err := controllerruntime.NewSource(secrets, "ConfigMap")
		if err != nil {
			t.Fatal(err)
		}
		reconciler := &referencing{client: m.GetClient(), secrets: secrets}
		if err := ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).WatchesRawSource(owners).Complete(reconciler); err != nil {
			t.Fatal(err)
		}
		secrets.SetReferences(manager.Owner{Kind: "Other", Name: "x"}, keyOfOne) // no request comes of it
		r := &managerRig{rig: &rig{t: t, server: server, client: server.Client()}}
		r.stop = start(t, m)
		time.Sleep(time.Minute)

		r.addOwner("one", "")
		reconciler.seen.wantLast(t, "absent", "one: NotFound")
		r.writeOwned(r.owner("one"), "1")
		reconciler.seen.wantLast(t, "created", "one: 1")
		r.writeOwned(r.owner("one"), "2")
		reconciler.seen.wantLast(t, "updated", "one: 2")
		shared := types.NamespacedName{Namespace: namespace, Name: "of-another-kind"}
		secrets.SetReferences(manager.Owner{Kind: "Other", Namespace: namespace, Name: "one"}, shared)
		synctest.Wait()
		reconciler.seen.clear()
		r.create(shared.Name, "x")
		reconciler.seen.want(t, "a Secret of an owner of another kind")
		r.addOwner("refused", "")
		time.Sleep(5 * time.Second)
		reconciler.seen.wantLast(t, "refused", "refused: Forbidden")
		if err := r.client.CoreV1().ConfigMaps(namespace).Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if owners := secrets.OwnersOf(keyOfOne.Namespace, keyOfOne.Name); len(owners) != 1 {
			t.Errorf("got owners %v, want only the other one", owners)
		}
		if reconciler.foreign.Load() {
			t.Error("got a request for an owner of another kind")
		}
		r.stop()
	})
	if _, err := controllerruntime.NewSource[*corev1.Secret](nil, "ConfigMap"); err == nil {
		t.Error("nil manager: got no error")
	}
	if _, err := controllerruntime.NewSource(&manager.Manager[*corev1.Secret]{}, ""); err == nil {
		t.Error("no kind: got no error")
	}
}

// withSecrets runs f in a bubble, with a manager of Secrets that is running and references
// the Secret "one".
func withSecrets(t *testing.T, f func(t *testing.T, r *rig, secrets *manager.Manager[*corev1.Secret])) {
	t.Helper()
	onServer(t, func(t *testing.T, server *apiserver.Server) {
		secrets, err := manager.NewSecrets(server.Client(), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t, server: server, client: server.Client()}
		r.create("one", "1")
		r.stop = start(t, controllerruntime.NewRunnable(secrets))
		secrets.SetReferences(manager.Owner{Kind: "Widget", Name: "w"}, keyOfOne)
		synctest.Wait()
		f(t, r, secrets)
		r.stop()
	})
}

// A Reader copies what it returns, refuses other types and lists, and returns the errors
// of its source.
func TestReader(t *testing.T) {
	withSecrets(t, func(t *testing.T, r *rig, secrets *manager.Manager[*corev1.Secret]) {
		reader, err := controllerruntime.NewReader(secrets)
		if err != nil {
			t.Fatal(err)
		}
		for _, shared := range []bool{false, true} {
			first, second, option := &corev1.Secret{}, &corev1.Secret{}, client.GetOptions{UnsafeDisableDeepCopy: &shared}
			if err := errors.Join(reader.Get(t.Context(), keyOfOne, first, &option), reader.Get(t.Context(), keyOfOne, second, &option)); err != nil {
				t.Fatal(err)
			}
			if got := &first.Data["value"][0] == &second.Data["value"][0]; got != shared || first.Name != "one" {
				t.Errorf("got Secret %q, shared %v, want one, shared %v", first.Name, got, shared)
			}
		}
		if err := reader.Get(t.Context(), keyOfOne, &corev1.ConfigMap{}); err == nil || !strings.Contains(err.Error(), "objects of type *v1.Secret") {
			t.Errorf("another type: got %v, want an error", err)
		}
		if err := reader.Get(t.Context(), keyOfOne, (*corev1.Secret)(nil)); err == nil {
			t.Error("nil: got no error")
		}
		if err := reader.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "x"}, &corev1.Secret{}); !errors.Is(err, objectcache.ErrNotRegistered) {
			t.Errorf("not referenced: got %v, want ErrNotRegistered", err)
		}
		if err := reader.List(t.Context(), &corev1.SecretList{}); !errors.Is(err, controllerruntime.ErrListRefused) || strings.Contains(err.Error(), "CacheOptions") {
			t.Errorf("List: got %v, want ErrListRefused without options of a cache", err)
		}
	})
	if _, err := controllerruntime.NewReader[*corev1.Secret](nil); err == nil {
		t.Error("nil source: got no error")
	}
}

// A runnable needs no leader election, and returns the error of its runner.
func TestRunnable(t *testing.T) {
	if controllerruntime.NewRunnable(nil).NeedLeaderElection() {
		t.Error("it needs leader election")
	}
	if err := controllerruntime.NewRunnable(nil).Start(t.Context()); err == nil {
		t.Error("nil: got no error")
	}
	withSecrets(t, func(t *testing.T, _ *rig, secrets *manager.Manager[*corev1.Secret]) {
		if err := controllerruntime.NewRunnable(secrets).Start(t.Context()); !errors.Is(err, objectcache.ErrAlreadyStarted) {
			t.Errorf("got %v, want ErrAlreadyStarted", err)
		}
	})
}
