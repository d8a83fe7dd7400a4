// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/bench/workload"
)

// rig is a server with the secrets of a set.
type rig struct {
	*testing.T

	server *apiserver.Server
	set    workload.Set
}

func newRig(t *testing.T) rig {
	r := rig{t, apiserver.New(t, apiserver.Options{}), workload.NewSet("test", 3)}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.set.Namespace}}
	if _, err := r.server.Client().CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range r.set.Names() {
		_, err := r.server.Client().CoreV1().Secrets(r.set.Namespace).Create(t.Context(), r.set.Secret(name, 0), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r rig) config() *rest.Config {
	config := r.server.Config()
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config
}

// await gets a secret until it is that edition.
func (r rig) await(c Contender, name string, edition int64) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	want := string(workload.Value(name, edition))
	err := wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(ctx context.Context) (bool, error) {
		secret, err := c.Get(ctx, r.set.Namespace, name)
		if err != nil {
			return false, nil // again, as the benchmark does
		}
		return string(workload.ValueOf(secret)) == want, r.set.Check(secret, name)
	})
	if err != nil {
		r.Fatalf("Get of edition %d of %s: got %v, want it", edition, name, err)
	}
}

// Every contender gets what is registered, and what becomes of it, and those that follow changes tell.
func TestContenders(t *testing.T) {
	for _, kind := range Kinds {
		t.Run(kind.Name, func(t *testing.T) {
			r := newRig(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			told := make(chan string, 100)
			c, err := kind.New(ctx, Options{Config: r.config(), Namespace: r.set.Namespace, Follow: func(secret *corev1.Secret) {
				told <- fmt.Sprint(secret.Name, " ", string(workload.ValueOf(secret)))
			}})
			if err != nil {
				t.Fatal(err)
			}
			pods := r.set.Pods(2)
			for _, pod := range pods {
				c.RegisterPod(pod)
			}
			for _, name := range r.set.Names() {
				r.await(c, name, 0)
			}
			name := workload.Name(1)
			secret := r.set.Secret(name, 1)
			if _, err := r.server.Client().CoreV1().Secrets(r.set.Namespace).Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			r.await(c, name, 1)
			if kind.Follows {
				awaitTold(t, told, fmt.Sprint(name, " ", string(workload.ValueOf(secret))))
			}
			for _, pod := range pods {
				c.UnregisterPod(pod)
			}
		})
	}
}

func awaitTold(t *testing.T, told <-chan string, want string) {
	t.Helper()
	for {
		select {
		case got := <-told:
			if got == want {
				return
			}
		case <-t.Context().Done():
			t.Fatal("the change is not told")
		}
	}
}

func TestByName(t *testing.T) {
	for _, kind := range Kinds {
		if got, err := ByName(kind.Name); err != nil || got.Name != kind.Name {
			t.Errorf("ByName(%q): got %q, %v", kind.Name, got.Name, err)
		}
	}
	if _, err := ByName("nobody"); err == nil {
		t.Errorf("ByName of nobody: got no error, want one")
	}
}

func TestRegistrars(t *testing.T) {
	pod := workload.NewSet("test", 20).Pods(20)[0]
	for _, kind := range Kinds {
		for _, over := range []func(string) (Registrar, error){OverNothing, OverIdleStore} {
			registrar, err := over(kind.Name)
			if err != nil {
				t.Fatal(err)
			}
			if registrar != nil {
				registrar.RegisterPod(pod)
				registrar.UnregisterPod(pod)
			}
		}
	}
}
