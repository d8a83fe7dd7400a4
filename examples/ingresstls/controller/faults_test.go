// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/test/apiserver"
)

// canary is data of Secrets that no error may hold.
const canary = "CANARY 7F3A9E"

// garbage returns the data of a Secret of which nothing can be used. crypto/tls quotes the type of a PEM block.
func garbage(t *testing.T) map[string][]byte {
	t.Helper()
	block := pem.EncodeToMemory(&pem.Block{Type: canary, Bytes: []byte("x")})
	return map[string][]byte{corev1.TLSCertKey: block, corev1.TLSPrivateKeyKey: block}
}

// A rotation to something that cannot be used is reported, and the last good certificate stays.
func TestUnusableRotation(t *testing.T) {
	for name, test := range map[string]struct {
		change func(r *rig, good map[string][]byte) map[string][]byte
		want   string
	}{
		"garbage": {func(r *rig, _ map[string][]byte) map[string][]byte { return garbage(r.T) }, "none of the type CERTIFICATE"},
		"certificate of another host": {func(r *rig, _ map[string][]byte) map[string][]byte {
			other, err := r.authority.Issue(time.Now().Add(never), "b.test")
			r.must(other, err)
			return other
		}, `is not valid for the host "a.test": it is for "b.test"`},
		"certificate of many other hosts": {func(r *rig, _ map[string][]byte) map[string][]byte {
			other, err := r.authority.Issue(time.Now().Add(never), "1.test", "2.test", "3.test", "4.test", "5.test", "6.test", "7.test")
			r.must(other, err)
			return other
		}, `it is for "1.test", "2.test", "3.test", "4.test", "5.test" and 2 more`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, r *rig) {
				defer r.start()()
				first := r.secret("a", "a.test")
				r.ingress("a", "a", "a.test")
				r.presents("a.test", first)

				next, err := r.authority.Issue(time.Now().Add(never), "a.test")
				r.must(next, err)
				r.setData("a", test.change(r, next))
				r.presents("a.test", first)
				err = r.status("a.test").Err
				if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), ns+"/a") ||
					strings.Contains(strings.ToUpper(err.Error()), canary[:6]) {
					t.Errorf("status: got error %v, want one with %q and the key, and without data", err, test.want)
				}
				r.presents("a.test", r.rotate("a", "a.test"))
				if err := r.status("a.test").Err; err != nil {
					t.Errorf("status: got error %v, want none", err)
				}
			})
		})
	}
}

// An expired certificate is presented, so that clients see the reason, and is reported.
func TestExpired(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		defer r.start()()
		serial := r.secret("a", "a.test") // valid for an hour
		r.ingress("a", "a", "a.test")
		r.presents("a.test", serial)
		time.Sleep(2 * time.Hour)
		if _, err := r.handshake("a.test"); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("handshake: got error %v, want that the certificate has expired", err)
		}
		if err := r.status("a.test").Err; err == nil || !strings.Contains(err.Error(), "expired at") {
			t.Errorf("status: got error %v, want that the certificate has expired", err)
		}
	})
}

// While the API server is away, handshakes present what is in memory, and the status says that nothing confirms it.
func TestServerAway(t *testing.T) {
	for name, answer := range map[string]apiserver.Interceptor{
		"503": func(context.Context, apiserver.Request) *metav1.Status {
			status := apierrors.NewServiceUnavailable("away").Status()
			return &status
		},
		"hangs": func(ctx context.Context, _ apiserver.Request) *metav1.Status { <-ctx.Done(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, r *rig) {
				serial := r.secret("a", "a.test")
				r.ingress("a", "a", "a.test")
				defer r.start()()
				r.server.Intercept(answer)
				r.server.CloseStreams(nil)
				time.Sleep(10 * time.Minute)
				r.presents("a.test", serial)
				if err := r.status("a.test").Err; err == nil || !strings.Contains(err.Error(), "last confirmed") {
					t.Errorf("status: got error %v, want that the server does not confirm the Secret", err)
				}
				r.server.Intercept(nil)
				serial = r.rotate("a", "a.test")
				time.Sleep(5 * time.Minute) // longer than a request that hangs
				r.presents("a.test", serial)
				if err := r.status("a.test").Err; err != nil {
					t.Errorf("status: got error %v, want none", err)
				}
			})
		})
	}
}

// WaitForSync ends with its context, and has the cause.
func TestWaitForSyncWithoutServer(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		r.server.Intercept(func(context.Context, apiserver.Request) *metav1.Status {
			return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Message: "starting up"}
		})
		defer r.start()()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := r.controller.WaitForSync(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(fmt.Sprint(err), "starting up") {
			t.Errorf("WaitForSync: got error %v, want the deadline and the cause", err)
		}
	})
}

// An Ingress that changes to another Secret keeps the certificate until the other is read.
func TestOtherSecretName(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		defer r.start()()
		first, second := r.secret("first", "a.test"), r.secret("second", "a.test")
		r.ingress("a", "first", "a.test")
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			if request.Name == "second" {
				<-ctx.Done()
			}
			return nil
		})
		ingresses := r.server.Client().NetworkingV1().Ingresses(ns)
		i, err := ingresses.Get(t.Context(), "a", metav1.GetOptions{})
		r.must(i, err)
		i.Spec.TLS[0].SecretName = "second"
		r.must(ingresses.Update(t.Context(), i, metav1.UpdateOptions{}))
		synctest.Wait()
		r.presents("a.test", first)
		if err := r.status("a.test").Err; err == nil {
			t.Error("status: got no error, want that the Secret is not read yet")
		}
		r.server.Intercept(nil)
		time.Sleep(5 * time.Minute)
		r.presents("a.test", second)
	})
}

// The generated Roles are enough, and nothing else is read. Without one, the host has no certificate, and the cause is
// reported; others are not affected.
func TestRoles(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		a := r.secret("a", "a.test")
		b := r.secret("b", "b.test")
		r.ingress("a", "a", "a.test")
		r.must(nil, r.controller.ListIngresses(t.Context()))
		roles, err := r.controller.Roles("ingresstls")
		r.must(roles, err)
		r.ingress("b", "b", "b.test")
		allow(r.server, roles)
		stop := r.start()
		time.Sleep(5 * time.Second)
		r.presents("a.test", a)
		r.refuses("b.test")
		if err := r.status("b.test").Err; !apierrors.IsForbidden(err) {
			t.Errorf("status: got error %v, want Forbidden", err)
		}
		roles, err = r.controller.Roles("ingresstls")
		r.must(roles, err)
		allow(r.server, roles)
		time.Sleep(15 * time.Second) // a grant is noticed within that
		r.presents("b.test", b)
		stop()
		for _, request := range r.server.Requests() {
			if request.Resource == "secrets" && request.Verb != "create" && request.Name == "" {
				t.Errorf("request: got %s of all secrets, want one by name", request.Verb)
			}
		}
	})
}

// allow allows list and watch of Ingresses, and what the Roles allow.
func allow(server *apiserver.Server, roles []rbacv1.Role) {
	server.Authorize(func(r apiserver.Request) bool {
		if r.Resource == "ingresses" {
			return r.Verb == "list" || r.Verb == "watch"
		}
		return slices.ContainsFunc(roles, func(role rbacv1.Role) bool {
			rule := role.Rules[0]
			return role.Namespace == r.Namespace && slices.Contains(rule.Resources, r.Resource) &&
				slices.Contains(rule.Verbs, r.Verb) && slices.Contains(rule.ResourceNames, r.Name)
		})
	})
}

// The certificates of many Ingresses do not depend on neighbours with any fault.
func TestIngressesWithBadNeighbours(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		serials := map[string]int64{}
		bad := r.createMany(serials)
		r.server.Authorize(func(request apiserver.Request) bool { return !strings.HasPrefix(request.Name, "forbidden") })
		defer r.start()()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.controller.WaitForSync(ctx); !apierrors.IsForbidden(err) {
			t.Errorf("WaitForSync: got error %v, want that of the forbidden Secrets", err)
		}
		for host, serial := range serials {
			r.presents(host, serial)
			if err := r.status(host).Err; err != nil {
				t.Errorf("status of %s: got error %v, want none", host, err)
			}
		}
		for _, host := range bad {
			if _, err := r.handshake(host); err == nil {
				t.Errorf("handshake for %s: got no error, want one", host)
			}
			if r.status(host).Err == nil {
				t.Errorf("status of %s: got no error, want one", host)
			}
		}
	})
}

// createMany creates 200 Ingresses with a host each, and some that name the hosts of others. It sets the
// serial numbers of the good hosts, and returns the bad ones.
func (r *rig) createMany(serials map[string]int64) (bad []string) {
	kinds := []string{"good", "missing", "forbidden", "garbage", "key", "type", "expired", "elsewhere", "taken", "good"}
	for i := range 200 {
		kind := kinds[i%len(kinds)]
		name := fmt.Sprintf("%s-%d", kind, i)
		host := name + ".test"
		s, err := r.authority.Secret(ns, name, host)
		r.must(s, err)
		switch kind {
		case "good", "taken":
			serials[host] = serialOf(s.Data)
		case "garbage":
			s.Data = garbage(r.T)
		case "key":
			other, err := r.authority.Secret(ns, name, host)
			r.must(other, err)
			s.Data[corev1.TLSPrivateKeyKey] = other.Data[corev1.TLSPrivateKeyKey]
		case "type":
			s.Type = corev1.SecretTypeOpaque
		case "expired":
			s.Data, err = r.authority.Issue(time.Now().Add(-time.Minute), host)
			r.must(s, err)
		case "elsewhere":
			s.Data, err = r.authority.Issue(time.Now().Add(never), "elsewhere.test")
			r.must(s, err)
		}
		if _, ok := serials[host]; !ok {
			bad = append(bad, host)
		}
		if kind != "missing" {
			r.must(r.server.Client().CoreV1().Secrets(ns).Create(r.Context(), s, metav1.CreateOptions{}))
		}
		r.ingress(name, name, host)
		if kind == "taken" {
			r.ingress("late-"+name, fmt.Sprintf("good-%d", i-8), host)
		}
	}
	return bad
}
