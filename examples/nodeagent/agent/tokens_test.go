// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/canary"
)

// accessVolume returns the volume that the ServiceAccount admission plugin adds to each pod, with a token of that
// lifetime.
func accessVolume(seconds int64) corev1.Volume {
	namespace := &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}
	return corev1.Volume{Name: "kube-api-access-x7k2p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: namespace}}}},
		},
	}}}
}

// newTokenRig returns a rig in virtual time. Its server has the objects that accessVolume references.
func newTokenRig(t *testing.T) *rig {
	r := newRigWith(t, apiserver.Options{InMemory: true})
	core := r.client.CoreV1()
	_, err := core.ServiceAccounts(metav1.NamespaceDefault).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta("default")}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ca := &corev1.ConfigMap{ObjectMeta: meta("kube-root-ca.crt"), Data: map[string]string{"ca.crt": "ca"}}
	if _, err := core.ConfigMaps(metav1.NamespaceDefault).Create(t.Context(), ca, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return r
}

// accessFiles waits until the pod's access volume is written, with or without a token, and returns the token or "".
func (r *rig) accessFiles(pod *corev1.Pod) (token string) {
	r.Helper()
	volume := pod.Spec.Volumes[0].Name
	r.eventually("access volume", func() error {
		for file, want := range map[string]string{"ca.crt": "ca", "namespace": "default"} {
			if got, err := os.ReadFile(r.path(pod, volume, file)); err != nil || string(got) != want {
				return fmt.Errorf("%s: got %q and error %w, want %q", file, got, err, want)
			}
		}
		return nil
	})
	return r.token(pod)
}

func (r *rig) token(pod *corev1.Pod) string {
	data, err := os.ReadFile(r.path(pod, pod.Spec.Volumes[0].Name, "token"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.Error(err)
	}
	return string(data)
}

func isTokenRequest(request apiserver.Request) bool {
	return request.Resource == "serviceaccounts" && request.Subresource == "token"
}

func refuseTokens(_ context.Context, request apiserver.Request) *metav1.Status {
	if isTokenRequest(request) {
		return &apierrors.NewForbidden(corev1.Resource("serviceaccounts/token"), request.Name, errors.New("no relationship found")).ErrStatus
	}
	return nil
}

// TestToken: issue 8, point 13. The kube-api-access volume has a token, which is renewed as in kubelet: after 80 % of
// its lifetime, at most a day, and not before.
func TestToken(t *testing.T) {
	for name, tc := range map[string]struct {
		seconds       int64
		same, renewed time.Duration // ages of the first token: it is still there; it was renewed
	}{
		"an hour": {3607, 47 * time.Minute, 49 * time.Minute},
		"a week":  {7 * 24 * 3600, 24*time.Hour - time.Minute, 24*time.Hour + time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTokenRig(t)
				pod := r.createPod("web-1", "node-1", accessVolume(tc.seconds))
				r.start()
				first := r.accessFiles(pod)
				if strings.Count(first, ".") != 2 {
					t.Fatalf("token: got %q, want a JWT", first)
				}
				time.Sleep(tc.same)
				if r.token(pod) != first {
					t.Errorf("token after %v: got another one, want the same", tc.same)
				}
				time.Sleep(tc.renewed - tc.same)
				if second := r.token(pod); second == first || second == "" {
					t.Errorf("token after %v: got %q, want another", tc.renewed, second)
				}
				r.deletePod("web-1")
				r.eventuallyGone(pod)
				synctest.Wait()
				if len(r.agent.tokens.answers) != 0 {
					t.Errorf("tokens in memory after the pod was deleted: got %d, want none", len(r.agent.tokens.answers))
				}
			})
		})
	}
}

// TestTokenForbidden: if the agent may not request tokens, the other files are written and the token is reported as
// left out. Once it may, the token is written.
func TestTokenForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTokenRig(t)
		r.server.Intercept(refuseTokens)
		pod := r.createPod("web-1", "node-1", accessVolume(3607))
		r.start()
		if token := r.accessFiles(pod); token != "" {
			t.Errorf("token: got %q, want none", token)
		}
		r.eventually("token reported as left out", func() error {
			got := r.agent.Status()[pod.UID].volume(pod.Spec.Volumes[0].Name)
			if got.Err != nil || len(got.LeftOut) != 1 || !strings.Contains(got.LeftOut[0], `serviceAccountToken at "token"`) ||
				!strings.Contains(got.LeftOut[0], "no relationship found") {
				return fmt.Errorf("status: got error %w and left out %q, want the token and its cause", got.Err, got.LeftOut)
			}
			return nil
		})
		time.Sleep(10 * time.Minute)
		requests := slices.DeleteFunc(r.server.Requests(), func(request apiserver.Request) bool { return !isTokenRequest(request) })
		if got := len(requests); got > 25 {
			t.Errorf("token requests in ten minutes of refusals: got %d, want about one a minute after the first ten", got)
		}
		r.server.Intercept(nil)
		time.Sleep(maxTokenRetry)
		if token := r.accessFiles(pod); token == "" {
			t.Error("token after the grant: got none")
		}
		if got := r.agent.Status()[pod.UID].volume(pod.Spec.Volumes[0].Name); len(got.LeftOut) != 0 {
			t.Errorf("left out after the grant: got %q, want nothing", got.LeftOut)
		}
	})
}

// TestTokenLag: a brief refusal, as the Node authorizer gives while its graph lags, leaves no file out.
func TestTokenLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTokenRig(t)
		r.server.Intercept(refuseTokens)
		pod := r.createPod("web-1", "node-1", accessVolume(3607))
		r.start()
		time.Sleep(time.Second)
		r.server.Intercept(nil)
		if token := r.accessFiles(pod); token == "" {
			t.Error("token: got a volume without one, want one with it")
		}
	})
}

// TestTokensHang: token requests that hang do not delay other volumes.
func TestTokensHang(t *testing.T) {
	const hanging = 250
	synctest.Test(t, func(t *testing.T) {
		r := newTokenRig(t)
		r.setSecret("open", "k", "1")
		healthy := r.createPod("healthy", "node-1", secretVolume("open"))
		r.start()
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			if isTokenRequest(request) && request.Name == "default" {
				<-ctx.Done()
			}
			return nil
		})
		for i := range hanging {
			r.createPod(fmt.Sprintf("web-%d", i), "node-1", accessVolume(3607))
		}
		time.Sleep(10 * time.Second)
		began := time.Now()
		r.setSecret("open", "k", "2")
		r.eventuallyHas(healthy, "open", "k", "2")
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("update beside %d pods whose token requests hang: got it on disk after %v, want at once", hanging, took)
		}
	})
}

// TestTokenAfterASleep: while the machine is suspended, its monotonic clock and its timers stand still, and the wall
// clock does not. A token that has to be renewed by then is renewed within tokenCheck; one that has expired is not
// written. A wall clock that is set back renews nothing late.
func TestTokenAfterASleep(t *testing.T) {
	for name, tc := range map[string]struct {
		wall    time.Duration // by how much the wall clock is ahead afterwards
		renewed bool
	}{
		"not due": {30 * time.Minute, false}, "due": {50 * time.Minute, true}, "expired": {8 * time.Hour, true}, "set back": {-8 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ahead atomic.Int64
				r := newTokenRig(t)
				r.start()
				synctest.Wait()
				r.agent.tokens.now = func() moment {
					now := time.Now()
					return moment{now, now.Round(0).Add(time.Duration(ahead.Load()))}
				}
				pod := r.createPod("web-1", "node-1", accessVolume(3607))
				first := r.accessFiles(pod)
				time.Sleep(10 * time.Minute)
				ahead.Store(int64(tc.wall))
				time.Sleep(tokenCheck + time.Second)
				if got := r.token(pod); got == "" || (got != first) != tc.renewed {
					t.Errorf("a minute after the sleep: got another token: %v, want %v", got != first, tc.renewed)
				}
				time.Sleep(40 * time.Minute)
				if got := r.token(pod); got == "" || got == first {
					t.Error("50 minutes awake: got the first token, want another")
				}
				ahead.Add(int64(2 * time.Hour))
				if _, err := r.agent.tokens.get(pod, pod.Spec.Volumes[0].Projected.Sources[0].ServiceAccountToken); !errors.Is(err, errTokenPending) {
					t.Errorf("get of an expired token: got error %v, want %v", err, errTokenPending)
				}
			})
		})
	}
}

// roundTripper is an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answers returns a round tripper that answers each request like this.
func answers(code int, header http.Header, body string) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
}

// TestTokenStaysSecret: no error of a token request and no log line quotes what may be the token.
func TestTokenStaysSecret(t *testing.T) {
	var canaries canary.Canaries
	secret := canaries.New()
	object := fmt.Sprintf(`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","status":{"token":"%s"}}`, secret)
	json, text := http.Header{"Content-Type": {"application/json"}}, http.Header{"Content-Type": {"text/plain"}}
	for name, tc := range map[string]struct {
		server roundTripper
		want   string // in the error
	}{
		"what is no answer": { // it may be the rest of a body
			server: func(*http.Request) (*http.Response, error) {
				return nil, fmt.Errorf("malformed HTTP response %q", secret)
			},
			want: `Post "https://server.example": malformed HTTP response`,
		},
		"the URL of a redirect": {
			server: func(r *http.Request) (*http.Response, error) {
				if r.URL.Host == "other.example" {
					return nil, io.ErrUnexpectedEOF
				}
				return answers(307, http.Header{"Location": {"https://other.example/" + secret}}, "")(r)
			},
			want: `Post "https://other.example": unexpected EOF`,
		},
		"a body that is no token":      {answers(201, json, strings.Replace(object, "TokenRequest", secret, 1)), "text is hidden"},
		"a body that is no status":     {answers(500, text, secret), "500 Internal Server Error, with a text that is hidden"},
		"a token without its lifetime": {answers(201, json, object), "no token or no lifetime"},
		"the message of a status":      {answers(403, json, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Forbidden","code":403}`), ": no"},
	} {
		t.Run(name, func(t *testing.T) {
			var log ktesting.BufferTL
			ctx := klog.NewContext(t.Context(), ktesting.NewLogger(&log, ktesting.NewConfig(ktesting.Verbosity(10))))
			client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://server.example", Transport: tc.server})
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = (&tokens{client: client}).request(ctx, tokenKey{namespace: "default", pod: "web-1", account: "default"})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), `service account "default/default": `) {
				t.Errorf("got error %v, want one of the service account with %q", err, tc.want)
			}
			canaries.Check(t, "error", canary.Print(err))
			canaries.Check(t, "log", log.String())
		})
	}
}
