// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

// writeOf is a write of the Secret of a name, which sets its value to "2" or deletes it.
type writeOf struct {
	creates bool
	after   string
	write   func(ctx context.Context, c client.Client, name string) error
}

// writesOfSecrets are the writes of each verb. "version" demands the version that the object has.
var writesOfSecrets = map[string]writeOf{
	"create": {true, "2", func(ctx context.Context, c client.Client, name string) error {
		return c.Create(ctx, secretNamed(name, "2"))
	}},
	"create unstructured": {true, "2", func(ctx context.Context, c client.Client, name string) error {
		return c.Create(ctx, unstructuredSecret(name))
	}},
	"update": {false, "2", func(ctx context.Context, c client.Client, name string) error {
		return c.Update(ctx, secretNamed(name, "2"))
	}},
	"update at a version": {false, "2", func(ctx context.Context, c client.Client, name string) error {
		secret := &corev1.Secret{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret); err != nil {
			return err
		}
		secret.Data["value"] = []byte("2")
		return c.Update(ctx, secret)
	}},
	"patch": {false, "2", func(ctx context.Context, c client.Client, name string) error {
		return c.Patch(ctx, secretNamed(name, "2"), client.Merge)
	}},
	"patch that tests": {false, "2", func(ctx context.Context, c client.Client, name string) error {
		patch := `[{"op":"test","path":"/data/value","value":"MQ=="},{"op":"replace","path":"/data/value","value":"Mg=="}]`
		return c.Patch(ctx, secretNamed(name, ""), client.RawPatch(types.JSONPatchType, []byte(patch)))
	}},
	"patch of metadata": {false, "2", func(ctx context.Context, c client.Client, name string) error {
		metadata := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		return c.Patch(ctx, metadata, client.RawPatch(types.MergePatchType, []byte(`{"data":{"value":"Mg=="}}`)))
	}},
	"apply": {false, "2", func(ctx context.Context, c client.Client, name string) error {
		applied := applycorev1.Secret(name, namespace).WithData(map[string][]byte{"value": []byte("2")})
		return c.Apply(ctx, applied, client.FieldOwner("test"), client.ForceOwnership)
	}},
	"apply that creates": {true, "2", func(ctx context.Context, c client.Client, name string) error {
		applied := applycorev1.Secret(name, namespace).WithData(map[string][]byte{"value": []byte("2")})
		return c.Apply(ctx, applied, client.FieldOwner("test"), client.ForceOwnership)
	}},
	"delete": {false, "absent", func(ctx context.Context, c client.Client, name string) error {
		return c.Delete(ctx, secretNamed(name, ""))
	}},
}

func unstructuredSecret(name string) *unstructured.Unstructured {
	secret := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"value": "Mg=="}}}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	secret.SetNamespace(namespace)
	secret.SetName(name)
	return secret
}

// answer is how a server answers an attempt of a write.
type answer struct {
	code   int  // 0: that of the write; -1: the connection is reset
	done   bool // the write is done
	repeat bool // with a Retry-After header, so that client-go repeats the write
}

func (a answer) String() string {
	return fmt.Sprintf("%d,done=%v,repeat=%v", a.code, a.done, a.repeat)
}

// answerWrites makes the server answer the attempts of the next write of Secrets or Gadgets. Later ones are its own.
func answerWrites(server *apiserver.Server, answers ...answer) {
	left := make(chan answer, len(answers))
	for _, answer := range answers {
		left <- answer
	}
	server.Wrap(func(w http.ResponseWriter, r *http.Request, _ apiserver.Request, next http.HandlerFunc) {
		if r.Method == http.MethodGet {
			next(w, r)
			return
		}
		var a answer
		select {
		case a = <-left:
		default:
		}
		switch {
		case a.code == 0:
			next(w, r)
			return
		case a.done:
			next(httptest.NewRecorder(), r)
		}
		if a.code < 0 {
			panic(http.ErrAbortHandler)
		}
		if a.repeat {
			w.Header().Set("Retry-After", "1")
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%s}`, strconv.Itoa(a.code))
	})
}

// uncertain are the answers after which a write may have been done, and here was, and first that of the write itself.
func uncertain() (all [][]answer) {
	all = append(all, []answer{{}})
	for _, code := range []int{408, 418, 429, 500, 504, 302, -1} {
		all = append(all, []answer{{code: code, done: true}})
	}
	for _, first := range []int{429, 504} {
		all = append(all, []answer{{code: first, done: true, repeat: true}}) // the repetition fails in the server's own way, if it does
		for _, last := range []int{400, 403, 404, 409, 422, 500, -1} {
			all = append(all, []answer{{code: first, done: true, repeat: true}, {code: last}})
		}
	}
	all = append(all, []answer{{code: 429, repeat: true}, {code: 503, done: true, repeat: true}, {code: 409}}) // the second of three
	return all
}

// A Get after a write that may have been done returns what the server has, whatever the error: also if client-go has
// repeated the write, and the repetition was refused.
func TestClientReadsAWriteThatMayBeDone(t *testing.T) {
	for verb, test := range writesOfSecrets {
		t.Run(verb, func(t *testing.T) {
			inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
				c := r.consistent()
				for i, answers := range uncertain() {
					name := fmt.Sprintf("secret-%d", i)
					want := "absent"
					if !test.creates {
						r.create(name, "1")
						want = "1"
					}
					if got := r.value(c, name); got != want {
						t.Fatalf("before: got %q, want %q", got, want)
					}
					r.server.Lag(time.Hour) // no event of the write comes
					answerWrites(r.server, answers...)
					err := test.write(t.Context(), c, name)
					caughtUp := time.AfterFunc(time.Second, r.server.CatchUp)
					if got := r.value(c, name); got != test.after {
						t.Errorf("%v, with the error %v: got %q, want %q", answers, err, got, test.after)
					}
					caughtUp.Stop()
					r.server.CatchUp()
				}
			})
		})
	}
}

// A write of which each attempt was refused, and one that was never sent, demands nothing: a Get answers from memory.
func TestClientDemandsNothingAfterARefusal(t *testing.T) {
	for verb, test := range writesOfSecrets {
		t.Run(verb, func(t *testing.T) {
			inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
				c := r.consistent()
				r.create("one", "1")
				_ = r.value(c, "one")
				sent := len(secretRequests(r.server))
				for _, code := range []int{400, 401, 403, 404, 405, 406, 409, 410, 413, 422} {
					answerWrites(r.server, answer{code: code})
					if err := test.write(t.Context(), c, "one"); err == nil {
						t.Fatalf("answer %d: got no error", code)
					}
					began := time.Now()
					if got := r.value(c, "one"); got != "1" || time.Since(began) > 0 {
						t.Errorf("answer %d: got %q after %v, want 1 at once", code, got, time.Since(began))
					}
				}
				ended, end := context.WithCancel(t.Context())
				end()
				if err := test.write(ended, c, "one"); err == nil {
					t.Fatal("the context has ended: got no error")
				}
				_ = r.value(c, "one")
				if got := secretRequests(r.server)[sent:]; len(got) > 0 {
					t.Errorf("got the requests %q, want none", got)
				}
			})
		})
	}
}

// The client notes repetitions also of an HTTP client that it is given, as a manager does, and leaves that unchanged.
func TestClientNotesRepetitionsOfAGivenHTTPClient(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		given, err := rest.HTTPClientFor(r.server.Config())
		if err != nil {
			t.Fatal(err)
		}
		transport := given.Transport
		c, err := controllerruntime.NewClient(r.server.Config(), client.Options{HTTPClient: given, Cache: &client.CacheOptions{Reader: r.cache}})
		if err != nil || given.Transport != transport {
			t.Fatalf("got the error %v and the transport %T, want none and that of before", err, given.Transport)
		}
		_ = r.value(c, "one")
		r.server.Lag(time.Hour)
		answerWrites(r.server, answer{code: 500, done: true, repeat: true})
		if err := c.Create(t.Context(), secretNamed("one", "2")); !apierrors.IsAlreadyExists(err) {
			t.Fatalf("got %v, want AlreadyExists", err)
		}
		time.AfterFunc(time.Second, r.server.CatchUp)
		if got := r.value(c, "one"); got != "2" {
			t.Errorf("got %q, want 2", got)
		}
		given.CloseIdleConnections()
	})
}

// If the context of a write ends while client-go waits to repeat it, the next Get returns what the server has.
func TestClientReadsAWriteWhoseRepetitionIsCancelled(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		c := r.consistent()
		r.create("one", "1")
		_ = r.value(c, "one")
		r.server.Lag(time.Hour)
		answerWrites(r.server, answer{code: 504, done: true, repeat: true})
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := c.Update(ctx, secretNamed("one", "2")); err == nil {
			t.Fatal("got no error")
		}
		time.AfterFunc(time.Second, r.server.CatchUp)
		if got := r.value(c, "one"); got != "2" {
			t.Errorf("got %q, want 2", got)
		}
	})
}

// Writes of a subresource count as those of the object.
func TestClientReadsAStatusThatMayBeWritten(t *testing.T) {
	for name, write := range map[string]func(context.Context, client.Client, *unstructured.Unstructured) error{
		"update": func(ctx context.Context, c client.Client, gadget *unstructured.Unstructured) error {
			return c.Status().Update(ctx, gadget)
		},
		"patch": func(ctx context.Context, c client.Client, gadget *unstructured.Unstructured) error {
			return c.SubResource("status").Patch(ctx, gadget, client.Merge)
		},
		"apply": func(ctx context.Context, c client.Client, gadget *unstructured.Unstructured) error {
			applied := gadget.DeepCopy()
			applied.SetResourceVersion("")
			return c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("test"), client.ForceOwnership)
		},
		"body": func(ctx context.Context, c client.Client, gadget *unstructured.Unstructured) error {
			return c.Status().Update(ctx, gadget.DeepCopy(), client.WithSubResourceBody(gadget))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, c, gadget := newGadget(t)
				for i, answers := range uncertain() {
					server.Wrap(nil)
					if err := c.Get(t.Context(), client.ObjectKeyFromObject(gadget), gadget); err != nil {
						t.Fatal(err)
					}
					want := strconv.Itoa(i)
					gadget.Object["status"] = map[string]any{"phase": want}
					server.Lag(time.Hour)
					answerWrites(server, answers...)
					err := write(t.Context(), c, gadget.DeepCopy())
					caughtUp := time.AfterFunc(time.Second, server.CatchUp)
					read := gadget.DeepCopy()
					getErr := c.Get(t.Context(), client.ObjectKeyFromObject(gadget), read)
					if got, _, _ := unstructured.NestedString(read.Object, "status", "phase"); getErr != nil || got != want {
						t.Errorf("%v, with the error %v: got %q and %v, want %q", answers, err, got, getErr, want)
					}
					caughtUp.Stop()
					server.CatchUp()
				}
			})
		})
	}
}
