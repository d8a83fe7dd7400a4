// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

func TestDeletePreconditions(t *testing.T) {
	f := newFixture(t, Options{})
	old := f.createSecret(newSecret("a"))
	current := f.updateSecret(old, "new")
	for name, test := range map[string]struct {
		preconditions metav1.Preconditions
		message       string
	}{
		"another uid": {
			metav1.Preconditions{UID: new(types.UID("x"))},
			"Precondition failed: UID in precondition: x, UID in object meta: " + string(current.UID),
		},
		"old version": {
			metav1.Preconditions{ResourceVersion: &old.ResourceVersion},
			"Precondition failed: ResourceVersion in precondition: " + old.ResourceVersion + ", ResourceVersion in object meta: " + current.ResourceVersion,
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := f.client.CoreV1().Secrets("default").Delete(t.Context(), "a", metav1.DeleteOptions{Preconditions: &test.preconditions})
			if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), test.message) {
				t.Errorf("got %v, want a conflict: %s", err, test.message)
			}
		})
	}
	matching := metav1.Preconditions{UID: &current.UID, ResourceVersion: &current.ResourceVersion}
	if err := f.client.CoreV1().Secrets("default").Delete(t.Context(), "a", metav1.DeleteOptions{Preconditions: &matching}); err != nil {
		t.Errorf("matching preconditions: got %v, want no error", err)
	}
	if err := f.client.CoreV1().Secrets("default").Delete(t.Context(), "a", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("second deletion: got %v, want NotFound", err)
	}
}

// TestDeleteResponse checks that the response to a deletion is a Status, or the object for some kinds.
func TestDeleteResponse(t *testing.T) {
	f := newFixture(t, Options{})
	secret := f.createSecret(newSecret("a"))
	got := f.do(http.MethodDelete, "/api/v1/namespaces/default/secrets/a", "")
	status := got.status(t)
	if got.code != 200 || status.Kind != "Status" || status.Status != "Success" || status.Details == nil ||
		status.Details.Name != "a" || status.Details.Kind != "secrets" || status.Details.UID != secret.UID {
		t.Errorf("got %d %+v, want a Status Success with name, resource and UID", got.code, status)
	}
	f.createPod(newPod("a"))
	got = f.do(http.MethodDelete, "/api/v1/namespaces/default/pods/a", `{"gracePeriodSeconds":30,"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1"}`)
	var pod corev1.Pod
	if err := json.Unmarshal(got.body, &pod); err != nil || got.code != 200 || pod.Kind != "Pod" || pod.ResourceVersion != f.ResourceVersion() {
		t.Errorf("got %d %s, %v, want the pod at the version of its deletion", got.code, got.body, err)
	}
	for name, body := range map[string]string{
		"malformed":    `{"gracePeriodSeconds":"x"}`,
		"another kind": `{"kind":"ListOptions","apiVersion":"v1"}`,
	} {
		if got := f.do(http.MethodDelete, "/api/v1/namespaces/default/pods/a", body); got.code != 400 {
			t.Errorf("%s: got %d %s, want 400", name, got.code, got.body)
		}
	}
	if got := f.do(http.MethodDelete, "/api/v1/namespaces/default/pods/a?propagationPolicy=Sideways", ""); got.code != 422 {
		t.Errorf("unknown policy: got %d %s, want 422", got.code, got.body)
	}
}

// TestFinalizers checks that an object with finalizers is deleted when the last of them is removed.
func TestFinalizers(t *testing.T) {
	f := newFixture(t, Options{})
	secrets := f.client.CoreV1().Secrets("default")
	secret := newSecret("a")
	secret.Finalizers = []string{"test.example/hold"}
	f.createSecret(secret)
	w := f.watchSecrets(metav1.ListOptions{ResourceVersion: f.ResourceVersion()})
	for range 2 { // the second deletion changes nothing
		check(t, secrets.Delete(t.Context(), "a", metav1.DeleteOptions{}))
	}
	marked := expect(t, w, watch.Modified).Object.(*corev1.Secret)
	if marked.DeletionTimestamp == nil || marked.DeletionGracePeriodSeconds == nil || *marked.DeletionGracePeriodSeconds != 0 {
		t.Errorf("got %+v, want a deletionTimestamp and a grace period of 0", marked.ObjectMeta)
	}
	more := marked.DeepCopy()
	more.Finalizers = append(more.Finalizers, "test.example/more")
	if _, err := secrets.Update(t.Context(), more, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("new finalizer on a deleted object: got %v, want Invalid", err)
	}
	undeleted := marked.DeepCopy()
	undeleted.DeletionTimestamp, undeleted.Labels = nil, map[string]string{"a": "b"}
	if got, err := secrets.Update(t.Context(), undeleted, metav1.UpdateOptions{}); err != nil || got.DeletionTimestamp == nil {
		t.Errorf("got %v, %v, want the deletionTimestamp kept", got, err)
	}
	expect(t, w, watch.Modified)
	if _, err := secrets.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(t, w, watch.Deleted)
	if _, err := secrets.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want NotFound", err)
	}
}

func TestDeleteCollection(t *testing.T) {
	f := newFixture(t, Options{})
	for _, name := range []string{"a", "b", "c"} {
		secret := newSecret(name)
		secret.Labels = map[string]string{"name": name}
		f.createSecret(secret)
	}
	err := f.client.CoreV1().Secrets("default").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "name!=b"})
	check(t, err)
	if list := f.listSecrets(metav1.ListOptions{}); len(list.Items) != 1 || list.Items[0].Name != "b" {
		t.Errorf("got %v, want b only", list.Items)
	}
	for _, target := range []string{"/api/v1/namespaces/default/secrets?labelSelector=%21%21", "/api/v1/namespaces/default/secrets?gracePeriodSeconds=x"} {
		if got := f.do(http.MethodDelete, target, ""); got.code != 400 {
			t.Errorf("%s: got %d, want 400", target, got.code)
		}
	}
	if got := f.do(http.MethodDelete, "/api/v1/secrets", ""); got.code != 405 {
		t.Errorf("all namespaces: got %d, want 405", got.code)
	}
}

func TestNamespaces(t *testing.T) {
	f := newFixture(t, Options{})
	list, err := f.client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 4 || list.Items[0].Name != "default" || list.Items[0].Status.Phase != corev1.NamespaceActive {
		t.Errorf("got %v, %v, want 4 active namespaces, default first", list, err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	created, err := f.client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
	if err != nil || created.Labels[corev1.LabelMetadataName] != "x" {
		t.Errorf("got %v, %v, want the name in a label", created, err)
	}
	f.createSecret(newSecret("a")) // in another namespace
	inside := newSecret("a")
	inside.Namespace = "x"
	f.createSecret(inside)
	var writes []string
	f.Observe(Observer{Write: func(w Write) { writes = append(writes, fmt.Sprint(w.Type, " ", w.Resource.Resource, " ", w.Key)) }})
	check(t, f.client.CoreV1().Namespaces().Delete(t.Context(), "x", metav1.DeleteOptions{}))
	if want := []string{"DELETED secrets x/a", "DELETED namespaces /x"}; !slices.Equal(writes, want) {
		t.Errorf("observed: got %q, want %q", writes, want)
	}
	if _, err := f.client.CoreV1().Secrets("x").Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get in a deleted namespace: got %v, want NotFound", err)
	}
	if _, err := f.client.CoreV1().Secrets("x").Create(t.Context(), inside, metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("create in a deleted namespace: got %v, want NotFound", err)
	}
}

// TestDeletionTimestampRaisesGeneration checks that the start of a deletion raises the generation of a pod.
func TestDeletionTimestampRaisesGeneration(t *testing.T) {
	f := newFixture(t, Options{})
	pods, pod := f.client.CoreV1().Pods("default"), newPod("a")
	pod.Finalizers = []string{"example.com/hold"}
	f.createPod(pod)
	for range 2 { // the second deletion changes nothing
		check(t, pods.Delete(t.Context(), "a", metav1.DeleteOptions{}))
		got, err := pods.Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil || got.DeletionTimestamp == nil || got.Generation != 2 {
			t.Errorf("got deletionTimestamp %v, generation %d, %v, want one and generation 2", got.DeletionTimestamp, got.Generation, err)
		}
	}
}
