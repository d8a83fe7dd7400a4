// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTokenRequest checks that a token has the requested lifetime, audience and pod, and that invalid requests are
// refused as by kube-apiserver.
func TestTokenRequest(t *testing.T) {
	core := New(t, Options{}).Client().CoreV1()
	for _, name := range []string{"default", "other"} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := core.ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pod, err := core.Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1"}}},
	}, metav1.CreateOptions{})
	check(t, err)
	bound := func(name string, uid string) *authenticationv1.BoundObjectReference {
		ref := &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: name}
		if ref.UID = pod.UID; uid != "" {
			ref.UID = "another"
		}
		return ref
	}
	for name, tc := range map[string]struct {
		account string
		spec    authenticationv1.TokenRequestSpec
		seconds int64
		is      func(error) bool
	}{
		"defaults":          {"default", authenticationv1.TokenRequestSpec{}, 3600, nil},
		"bound":             {"default", authenticationv1.TokenRequestSpec{BoundObjectRef: bound("web-1", ""), ExpirationSeconds: new(int64(600)), Audiences: []string{"vault"}}, 600, nil},
		"no account":        {"none", authenticationv1.TokenRequestSpec{}, 0, apierrors.IsNotFound},
		"too short":         {"default", authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(599))}, 0, apierrors.IsInvalid},
		"no pod":            {"default", authenticationv1.TokenRequestSpec{BoundObjectRef: bound("web-2", "")}, 0, apierrors.IsNotFound},
		"another pod":       {"default", authenticationv1.TokenRequestSpec{BoundObjectRef: bound("web-1", "another")}, 0, apierrors.IsConflict},
		"another's account": {"other", authenticationv1.TokenRequestSpec{BoundObjectRef: bound("web-1", "")}, 0, apierrors.IsBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := core.ServiceAccounts("default").CreateToken(t.Context(), tc.account, &authenticationv1.TokenRequest{Spec: tc.spec}, metav1.CreateOptions{})
			if tc.is != nil {
				if !tc.is(err) {
					t.Errorf("CreateToken: got unexpected error %v", err)
				}
				return
			}
			check(t, err)
			if *got.Spec.ExpirationSeconds != tc.seconds || !time.Now().Before(got.Status.ExpirationTimestamp.Time) {
				t.Errorf("lifetime: got %d s until %v, want %d s", *got.Spec.ExpirationSeconds, got.Status.ExpirationTimestamp, tc.seconds)
			}
			var claims struct {
				Aud []string
				Sub string
				Own struct{ Pod struct{ UID string } } `json:"kubernetes.io"`
			}
			parts := strings.Split(got.Status.Token, ".")
			data, err := base64.RawURLEncoding.DecodeString(parts[1])
			check(t, err)
			check(t, json.Unmarshal(data, &claims))
			if claims.Sub != "system:serviceaccount:default:default" || len(claims.Aud) != 1 {
				t.Errorf("claims: got %+v, want the account and one audience", claims)
			}
			if tc.spec.BoundObjectRef != nil && claims.Own.Pod.UID != string(pod.UID) {
				t.Errorf("claims: got pod %q, want %q", claims.Own.Pod.UID, pod.UID)
			}
		})
	}
	if _, err := core.RESTClient().Get().AbsPath("/api/v1/namespaces/default/serviceaccounts/default/token").DoRaw(t.Context()); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("get of a token: got error %v, want MethodNotAllowed", err)
	}
}
