// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	canaries "github.com/refwatch/refwatch/test/canary"
)

// Changes yields what the reads observe.
func TestTTLChanges(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		sub := r.subscribe()
		defer sub.stop()
		want(t, "at first", sub.seen(), "tls="+canary)
		r.AddReference(namespace, "absent", "pod")
		want(t, "before a read", sub.seen())
		_, _ = r.get("absent", time.Second)
		want(t, "absent", sub.seen(), "absent absent")
		r.update("tls", "1")
		time.Sleep(time.Hour)
		want(t, "without a Get", sub.seen())
		r.mustGet("tls")
		want(t, "after a Get", sub.seen(), "tls=1")
		time.Sleep(time.Minute)
		r.mustGet("tls")
		want(t, "read again, unchanged", sub.seen())
		r.AddReference(namespace, "tls", "other")
		want(t, "another owner, before a read", sub.seen())
		r.mustGet("tls")
		want(t, "another owner", sub.seen(), "tls=1")
		r.remove("tls")
		time.Sleep(time.Minute)
		_, _ = r.get("tls", time.Second)
		want(t, "deletion", sub.seen(), "tls gone")
		r.create("tls")
		time.Sleep(time.Second)
		r.mustGet("tls")
		want(t, "recreation", sub.seen(), "tls="+canary)
		r.DeleteReference(namespace, "tls", "pod")
		r.DeleteReference(namespace, "tls", "other")
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		want(t, "referenced anew", sub.seen(), "tls="+canary)
		r.stop()
		<-sub.done
		for range r.Changes(t.Context()) {
			t.Error("a stopped store yields a change")
		}
	})
}

// After a restore from a backup the server has older versions, or other content under
// the same version. The newest read counts.
func TestTTLServerRolledBack(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		before := r.server.Snapshot()
		r.update("tls", "lost")
		time.Sleep(time.Minute)
		lost := r.mustGet("tls")
		sub := r.subscribe()
		defer sub.stop()
		want(t, "before", sub.seen(), "tls=lost")

		r.server.Restore(before)
		if updated := r.update("tls", "other"); updated.ResourceVersion != lost.ResourceVersion || updated.UID != lost.UID {
			t.Fatalf("got version %s, want the one that was lost, %s", updated.ResourceVersion, lost.ResourceVersion)
		}
		time.Sleep(time.Minute)
		if got := valueOf(r.mustGet("tls")); got != "other" {
			t.Errorf("the same version: got %q, want the new content", got)
		}
		want(t, "the same version", sub.seen(), "tls=other")

		r.server.Restore(before)
		time.Sleep(time.Minute)
		if got := valueOf(r.mustGet("tls")); got != canary {
			t.Errorf("an older version: got %q, want the restored state", got)
		}
		want(t, "an older version", sub.seen(), "tls="+canary)
	})
}

// The last reference ends a request under way.
func TestTTLLastReferenceEndsTheRead(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.AddReference(namespace, "tls", "pod")
		ended := false
		r.server.Intercept(func(ctx context.Context, _ apiserver.Request) *metav1.Status {
			<-ctx.Done()
			ended = true
			return nil
		})
		_, _ = r.TryGet(namespace, "tls")
		synctest.Wait()
		if ended {
			t.Error("the request has ended before")
		}
		r.DeleteReference(namespace, "tls", "pod")
		synctest.Wait()
		if !ended {
			t.Error("the request goes on")
		}
	})
}

// Get and DeleteReference at the same moment: an object without references is not
// requested, and not kept.
func TestTTLGetRacesTheLastReference(t *testing.T) {
	server := apiserver.New(t, apiserver.Options{})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tls"}}
	if _, err := server.Client().CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	store, err := objectcache.NewTTLStore(resource.Secrets(server.Client()), objectcache.TTLOptions{TTLFunc: noTTL})
	if err != nil {
		t.Fatal(err)
	}
	stop := runStore(t.Context(), t, store)
	for round := range 200 {
		store.AddReference(namespace, "tls", "pod")
		var racing sync.WaitGroup
		for range 4 {
			racing.Go(func() {
				if _, err := store.Get(t.Context(), namespace, "tls"); err != nil && !errors.Is(err, objectcache.ErrNotRegistered) {
					t.Errorf("Get: got %v, want the object or ErrNotRegistered", err)
				}
			})
		}
		if round%2 == 0 {
			_, _ = store.Get(t.Context(), namespace, "tls")
		}
		store.DeleteReference(namespace, "tls", "pod")
		racing.Wait()
		if _, ok := store.Status(namespace, "tls"); ok {
			t.Fatal("after the last reference: got a status, want none")
		}
		if _, err := store.Get(t.Context(), namespace, "tls"); !errors.Is(err, objectcache.ErrNotRegistered) {
			t.Fatalf("after the last reference: got %v, want ErrNotRegistered", err)
		}
	}
	stop()
}

// Objects are kept without managedFields.
func TestTTLObjectHasNoManagedFields(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		created := r.create("tls", func(s *corev1.Secret) {
			s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "test", Operation: metav1.ManagedFieldsOperationUpdate}}
		})
		r.AddReference(namespace, "tls", "pod")
		if got := r.mustGet("tls"); len(created.ManagedFields) == 0 || len(got.ManagedFields) > 0 {
			t.Errorf("got %v, want none of %v", got.ManagedFields, created.ManagedFields)
		}
	})
}

// The last reference, and the end of Run, free the object and end a read under way.
func TestTTLObjectIsFreed(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"last reference": func(r *rig) { r.DeleteReference(namespace, "tls", "pod") },
		"last reference, during a read": func(r *rig) {
			release := r.holdBack("get")
			defer release()
			time.Sleep(time.Minute)
			_, _ = r.TryGet(namespace, "tls")
			synctest.Wait()
			r.DeleteReference(namespace, "tls", "pod")
			synctest.Wait()
		},
		"stopped": func(r *rig) { r.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			freed := make(chan struct{})
			inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
				r.create("tls")
				r.AddReference(namespace, "tls", "pod")
				r.closeWhenFreed("tls", freed)
				end(r)
				synctest.Wait()
				collect(t, freed)
			})
		})
	}
}

// The status follows the object. Owners are counted.
func TestTTLStatus(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		created := r.create("tls")
		r.AddReference(namespace, "tls", "b")
		r.AddReference(namespace, "tls", "a")
		r.AddReference(namespace, "tls", "a")
		release := r.holdBack("get")
		waiting := r.async(t.Context(), "tls")
		if got := r.phase("tls"); got != objectcache.PhaseSyncing {
			t.Errorf("during the first read: got %s, want Syncing", got)
		}
		release()
		<-waiting
		read := time.Now()
		time.Sleep(time.Hour)
		status, ok := r.Status(namespace, "tls")
		if !ok || status.Phase != objectcache.PhaseServing || status.Reason != objectcache.ReasonOnDemand || !status.Exists || status.UID != created.UID || status.ResourceVersion != created.ResourceVersion ||
			!status.Synced || !status.LastContact.Equal(read) || fmt.Sprint(status.Owners) != "[a b]" || status.LastError != nil {
			t.Errorf("got %+v, want the object, its owners and the time of the read", status)
		}
		store := r.Store.(*objectcache.TTLStore[*corev1.Secret])
		if !store.HasSynced(namespace, "tls") {
			t.Error("after the TTL: HasSynced is false, want what Status has")
		}
		r.AddReference(namespace, "tls", "new")
		if status, _ := r.Status(namespace, "tls"); status.Synced || store.HasSynced(namespace, "tls") {
			t.Error("a new owner, before a read: got synced, want that Get waits")
		}
		r.DeleteReference(namespace, "tls", "new")
		for _, owner := range []types.UID{"a", "b", "stranger", "b"} {
			r.DeleteReference(namespace, "tls", owner)
		}
		if _, ok := r.Status(namespace, "tls"); !ok {
			t.Error("one reference left: got no status")
		}
		r.DeleteReference(namespace, "tls", "a")
		if _, ok := r.Status(namespace, "tls"); ok {
			t.Error("no reference left: got a status")
		}
		for range r.Statuses() {
			t.Error("no reference left: Statuses yields one")
		}
	})
}

// No log line and no error holds object data.
func TestTTLNoObjectDataInLogsAndErrors(t *testing.T) {
	object := fmt.Sprintf(`{"metadata":{"name":"tls"},"data":{"password":%q},"stringData":{"x":%q}}`,
		base64.StdEncoding.EncodeToString([]byte(canary)), canary)
	for name, options := range map[string]objectcache.StoreOptions{"TTL": objectcache.TTLOptions{}, "direct": objectcache.DirectOptions{}} {
		for _, code := range []int{http.StatusOK, http.StatusForbidden, http.StatusNotFound, http.StatusInternalServerError} {
			for _, hidden := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%d/REST client hidden: %v", name, code, hidden), func(t *testing.T) {
					out := canaries.CaptureLog(t)
					var texts []string
					synctest.Test(t, func(t *testing.T) {
						texts = quotedBy(t, options, func(*http.Request) (int, string) { return code, object }, hidden)
					})
					checkSecrecy(t, "error, status or log", append(texts, out.Take())...)
				})
			}
		}
	}
}

// Another object than the one that was asked for is not served. The status has both keys.
func TestTTLForeignObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := answers(func(*http.Request) (int, string) {
			return http.StatusOK, `{"kind":"Secret","apiVersion":"v1","metadata":{"namespace":"default","name":"other","resourceVersion":"5"}}`
		})
		client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "https://server.test", Transport: other, QPS: -1})
		store, err := objectcache.NewTTLStore(resource.Secrets(client), objectcache.TTLOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer runStore(t.Context(), t, store)()
		store.AddReference(namespace, "tls", "pod")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = store.Get(ctx, namespace, "tls")
		status, _ := store.Status(namespace, "tls")
		for from, err := range map[string]error{"Get": err, "Status": status.LastError} {
			if text := "the object default/other, where default/tls was asked for"; err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: got %v, want an error with %q", from, err, text)
			}
		}
	})
}
