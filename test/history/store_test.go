// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/history"
)

// A recorded store behaves as the store, and its trace has every call, no object data, and no violation.
func TestStore(t *testing.T) {
	const canary = "correct horse battery staple"
	server := apiserver.New(t, apiserver.Options{})
	writeSecret(t, server, canary)
	var trace bytes.Buffer
	store, stop := runStore(t, server, &trace)
	defer stop()
	ctx := t.Context()

	store.AddReference("default", "tls", "pod")
	store.AddReference("default", "tls", "job")
	store.DeleteReference("default", "tls", "job")
	store.DeleteReference("default", "tls", "nobody")
	if got, err := store.Get(ctx, "default", "tls"); err != nil || string(got.Data["key"]) != canary {
		t.Fatalf("Get: got error %v, want the Secret", err)
	}
	updated := writeSecret(t, server, "changed")
	for change := range store.Changes(ctx) {
		if change.Object.GetResourceVersion() == updated.GetResourceVersion() {
			break
		}
	}
	if got, err := store.TryGet("default", "tls"); err != nil || got.ResourceVersion != updated.ResourceVersion {
		t.Errorf("TryGet: got error %v, want the update", err)
	}
	store.DeleteReference("default", "tls", "pod")
	if _, err := store.TryGet("default", "tls"); err == nil {
		t.Error("TryGet without a reference: got no error")
	}
	if _, err := store.Get(ctx, "default", "not/a/name"); !errors.Is(err, objectcache.ErrInvalidName) {
		t.Errorf("Get of an invalid name: got %v, want ErrInvalidName", err)
	}
	stop()
	if _, err := store.Get(ctx, "default", "tls"); !errors.Is(err, objectcache.ErrStopped) {
		t.Errorf("Get after the end: got %v, want ErrStopped", err)
	}
	lines := trace.String()
	for op, want := range map[history.Op]int{
		history.BeginReference: 2, history.EndReference: 2, history.BeginRelease: 3, history.EndRelease: 3,
		history.BeginGet: 5, history.EndGet: 5, history.BeginRange: 1, history.EndRange: 1,
	} {
		if got := strings.Count(lines, `"op":"`+string(op)+`"`); got != want {
			t.Errorf("%s: got %d events, want %d", op, got, want)
		}
	}
	if strings.Contains(lines, canary) || strings.Contains(lines, "Y29ycmVjdC") {
		t.Error("the trace has object data")
	}
	report, err := history.Check(strings.NewReader(lines), history.Limits{})
	if err != nil || report.Count > 0 || report.Checked < 3 {
		t.Errorf("got %+v and error %v, want at least 3 states checked and no violation", report, err)
	}
}

// runStore runs a store whose calls are recorded, until stop is called.
func runStore(t *testing.T, server *apiserver.Server, trace io.Writer) (store objectcache.Store[*corev1.Secret], stop func()) {
	t.Helper()
	watched, err := objectcache.NewWatchStore(resource.Secrets(server.Client()), objectcache.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	recorder := history.NewRecorder(history.Options{Output: trace, IncompleteWrites: true})
	store = history.NewStore[*corev1.Secret](watched, "secrets", recorder)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := store.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return store, func() {
		cancel()
		running.Wait()
	}
}

// A caller that changes an object is found out: the next Get returns another state of the same version.
func TestChangedObject(t *testing.T) {
	server := apiserver.New(t, apiserver.Options{})
	writeSecret(t, server, "value")
	var trace bytes.Buffer
	store, stop := runStore(t, server, &trace)
	defer stop()
	store.AddReference("default", "tls", "pod")
	// The object of a GET beside the first read is compared with that of the stream.
	err := wait.PollUntilContextCancel(t.Context(), time.Millisecond, true, func(context.Context) (bool, error) {
		status, _ := store.Status("default", "tls")
		return status.Stream == objectcache.StreamNamed && status.Synced, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		secret, err := store.Get(t.Context(), "default", "tls")
		if err != nil {
			t.Fatal(err)
		}
		secret.Data["key"][0]++
	}
	report, err := history.Check(&trace, history.Limits{})
	if err != nil || report.Count != 1 || !strings.Contains(report.Violations[0].Text, "that of another state before") {
		t.Errorf("got %+v and error %v, want one violation", report, err)
	}
}

// writeSecret creates or updates the Secret default/tls.
func writeSecret(t *testing.T, server *apiserver.Server, value string) *corev1.Secret {
	t.Helper()
	secrets := server.Client().CoreV1().Secrets("default")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tls"}, StringData: map[string]string{"key": value}}
	written, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	if err != nil {
		written, err = secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return written
}

// The digest of an object is known before it is written: a Get may return it before the write has ended.
func TestDigestBeforeTheWrite(t *testing.T) {
	server := apiserver.New(t, apiserver.Options{})
	secrets := server.Client().CoreV1().Secrets("default")
	checker := history.NewChecker(history.Limits{})
	object := history.NewRecorder(history.Options{Checker: checker}).Object("secrets/default/tls")
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tls"}, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"key": nil},
	}
	for i, write := range []func(context.Context, *corev1.Secret) (*corev1.Secret, error){
		func(ctx context.Context, secret *corev1.Secret) (*corev1.Secret, error) {
			return secrets.Create(ctx, secret, metav1.CreateOptions{FieldManager: "test"})
		},
		func(ctx context.Context, secret *corev1.Secret) (*corev1.Secret, error) {
			return secrets.Update(ctx, secret, metav1.UpdateOptions{FieldManager: "test"})
		},
	} {
		secret.Data["key"] = []byte{byte(i)}
		begun := object.BeginWrite(history.Digest(secret))
		written, err := write(t.Context(), secret)
		if err != nil {
			t.Fatal(err)
		}
		get := object.BeginGet(t.Context())
		read, err := secrets.Get(t.Context(), "tls", metav1.GetOptions{})
		get.Return(history.StateOf(read), err)
		begun.Commit(history.StateOf(written))
	}
	if report := checker.Report(); report.Count > 0 || report.Checked != 2 {
		t.Errorf("got %+v, want 2 states checked and no violation", report)
	}
}

// Two objects have the same digest if they have the same content.
func TestDigest(t *testing.T) {
	secret := func(value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tls"}, Data: map[string][]byte{"key": []byte(value)}}
	}
	typed := secret("a")
	typed.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
	if a, b := history.Digest(secret("a")), history.Digest(typed); a != b {
		t.Errorf("with and without type: got %s and %s, want the same", a, b)
	}
	managed := secret("a")
	managed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	if a, b := history.Digest(secret("a")), history.Digest(managed); a != b {
		t.Errorf("with and without managed fields: got %s and %s, want the same", a, b)
	}
	if a, b := history.Digest(secret("a")), history.Digest(secret("b")); a == b {
		t.Errorf("two contents: got %s twice", a)
	}
	deleted := secret("a")
	deletion := metav1.Unix(1, 0)
	deleted.DeletionTimestamp = &deletion
	if a, b := history.Digest(secret("a")), history.Digest(deleted); a == b {
		t.Errorf("with and without a deletion timestamp: got %s twice", a)
	}
}

// The digests of another process are different: nobody can compute the digest of a content.
func TestDigestOfAnotherProcess(t *testing.T) {
	const inTheOther = "HISTORY_TEST_DIGEST"
	digest := history.Digest(&corev1.Secret{})
	if os.Getenv(inTheOther) != "" {
		fmt.Println(digest)
		return
	}
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDigestOfAnotherProcess$")
	other.Env = append(os.Environ(), inTheOther+"=yes")
	output, err := other.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := strings.Cut(string(output), "\n"); len(got) != len(digest) || got == digest {
		t.Errorf("another process: got the digest %q, want one that is not %q", got, digest)
	}
}
