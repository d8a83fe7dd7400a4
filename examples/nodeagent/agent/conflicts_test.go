// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func secretSource(name string) corev1.VolumeProjection {
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
}

func tokenSource(path string) corev1.VolumeProjection {
	return corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: path, ExpirationSeconds: new(int64(3607))}}
}

func projected(sources ...corev1.VolumeProjection) corev1.Volume {
	return corev1.Volume{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}}
}

// eventuallyUpdated updates a Secret, and waits until the volume has exactly these files.
func (r *rig) eventuallyUpdated(pod *corev1.Pod, secret, key, value string, want ...string) {
	r.Helper()
	r.setSecret(secret, "token", "of the Secret", key, value)
	r.eventuallyHas(pod, "all", append(want, key, value)...)
}

// TestTokenAtTheKeyOfASecret: a Secret has a key at the path of a token that the agent may not request. The volume goes
// on being updated, also after a restart. The later source has the path: if it is the token, there is no file, and
// never that of the Secret.
func TestTokenAtTheKeyOfASecret(t *testing.T) {
	for name, tc := range map[string]struct {
		sources []corev1.VolumeProjection
		token   []string // what the volume has at the path
		names   string
	}{
		"the token is later": {
			[]corev1.VolumeProjection{secretSource("app"), tokenSource("token")}, nil, `serviceAccountToken replaces secret "default/app"`},
		"the Secret is later": {
			[]corev1.VolumeProjection{tokenSource("token"), secretSource("app")}, []string{"token", "of the Secret"},
			`secret "default/app" replaces serviceAccountToken`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTokenRig(t)
				r.server.Intercept(refuseTokens)
				r.setSecret("app", "token", "of the Secret", "k", "1")
				pod := r.createPod("web-1", "node-1", projected(tc.sources...))
				r.start()
				r.eventuallyHas(pod, "all", append([]string{"k", "1"}, tc.token...)...)
				r.eventuallyUpdated(pod, "app", "k", "2", tc.token...)
				time.Sleep(time.Minute)
				r.eventuallyUpdated(pod, "app", "k", "3", tc.token...)
				r.eventuallyUpdated(pod, "app", "l", "4", tc.token...)
				r.checkConflicts(pod, tc.names)
				if got := r.failure(pod, "all"); got != "" {
					t.Errorf("status: got error %q, want none", got)
				}
				r.stop()
				r.setSecret("app", "token", "of the Secret", "k", "5")
				r.start()
				r.eventuallyHas(pod, "all", append([]string{"k", "5"}, tc.token...)...)
				r.checkConflicts(pod, tc.names)
			})
		})
	}
}

// checkConflicts checks that the status has one conflict, of the path "token" and these sources.
func (r *rig) checkConflicts(pod *corev1.Pod, names string) {
	r.Helper()
	r.eventually("conflict in the status", func() error {
		want := `two sources have the path "token": ` + names
		if got := r.agent.Status()[pod.UID].volume("all").Conflicts; !slices.Equal(got, []string{want}) {
			return fmt.Errorf("conflicts: got %q, want %q", got, want)
		}
		return nil
	})
}

// TestKeptTokenDoesNotFreeze: while a token cannot be renewed, also after a restart, its file stays, and the other
// files of the volume are updated.
func TestKeptTokenDoesNotFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTokenRig(t)
		r.setSecret("app", "token", "of the Secret", "k", "1")
		pod := r.createPod("web-1", "node-1", projected(secretSource("app"), tokenSource("token")))
		r.start()
		var token string
		r.eventually("a token", func() error {
			if token = r.token(pod); strings.Count(token, ".") != 2 {
				return fmt.Errorf("token: got %q, want a JWT", token)
			}
			return nil
		})
		r.server.Intercept(refuseTokens)
		time.Sleep(62 * time.Minute) // it has expired
		r.eventuallyUpdated(pod, "app", "k", "2", "token", token)
		r.eventuallyFails(pod, "all", `serviceAccountToken at "token"`, "no relationship found")
		for i, key := range []string{"k", "l"} {
			r.stop()
			r.start()
			r.eventuallyUpdated(pod, "app", key, fmt.Sprint(i), "token", token)
			r.eventuallyFails(pod, "all", "no relationship found")
		}
		r.server.Intercept(nil)
		time.Sleep(2 * maxTokenRetry)
		if got := r.token(pod); strings.Count(got, ".") != 2 || got == token {
			t.Errorf("token after the grant: got %q, want another one", got)
		}
		if got := r.failure(pod, "all"); got != "" {
			t.Errorf("status after the grant: got error %q, want none", got)
		}
	})
}
