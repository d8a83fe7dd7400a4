// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/test/e2e"
)

// accessVolume returns the volume that the ServiceAccount admission plugin adds to each pod, with a second token for
// another audience.
func accessVolume() corev1.Volume {
	namespace := &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}
	return corev1.Volume{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(3607))}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: namespace}}}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "vault", Audience: "vault", ExpirationSeconds: new(int64(600))}},
		},
	}}}
}

// TestAgentKubeAPIAccess: with a node's rights only, the agent writes the files that a pod needs to use the API. The
// server accepts the token as the pod's, and the other one for its audience only.
func TestAgentKubeAPIAccess(t *testing.T) {
	r := &agentRig{rig: newRig(t, e2e.Options{}), root: t.TempDir()}
	admin := r.cluster.Admin()
	r.must(r.admin.CoreV1().ServiceAccounts(namespace).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{}))
	ca := admin.CAData
	if len(ca) == 0 {
		var err error
		ca, err = os.ReadFile(admin.CAFile)
		r.must(ca, err)
	}
	r.must(r.admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": string(ca)},
	}, metav1.CreateOptions{}))
	pod := r.createPod("web-1", node1, corev1.PodSpec{ServiceAccountName: "web", Volumes: []corev1.Volume{accessVolume()}})
	r.start()
	r.eventuallySynced("the volume is written", func(context.Context) error { return r.reported(pod, "kube-api-access") })
	r.wantFile(pod, "kube-api-access", "namespace", namespace)

	// As rest.InClusterConfig does.
	dir := r.path(pod, "kube-api-access")
	config := &rest.Config{
		Host: admin.Host, BearerTokenFile: filepath.Join(dir, "token"), TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(dir, "ca.crt")},
	}
	review, err := e2e.Client(t, config).AuthenticationV1().SelfSubjectReviews().Create(
		t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	r.must(review, err)
	if got, want := review.Status.UserInfo.Username, "system:serviceaccount:"+namespace+":web"; got != want {
		t.Errorf("user of the token: got %q, want %q", got, want)
	}
	if got := review.Status.UserInfo.Extra["authentication.kubernetes.io/pod-uid"]; len(got) != 1 || got[0] != string(pod.UID) {
		t.Errorf("pod of the token: got %q, want %q", got, pod.UID)
	}
	for audience, want := range map[string]bool{"vault": true, "": false} {
		if got := r.accepts(filepath.Join(dir, "vault"), audience); got != want {
			t.Errorf("token for vault, presented for audience %q: got accepted %v, want %v", audience, got, want)
		}
	}

	r.deletePod("web-1")
	r.eventuallySynced("the files are removed", func(context.Context) error {
		if _, err := os.Lstat(dir); err == nil {
			return fmt.Errorf("%s exists", dir)
		}
		return nil
	})
	r.stop()
}

// accepts reports whether the server accepts the token in a file for an audience; "" is that of the server.
func (r *agentRig) accepts(file, audience string) bool {
	r.Helper()
	token, err := os.ReadFile(file)
	r.must(token, err)
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: string(token)}}
	if audience != "" {
		review.Spec.Audiences = []string{audience}
	}
	review, err = r.admin.AuthenticationV1().TokenReviews().Create(r.Context(), review, metav1.CreateOptions{})
	r.must(review, err)
	return review.Status.Authenticated
}
