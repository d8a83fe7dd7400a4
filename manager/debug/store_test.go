// SPDX-License-Identifier: Apache-2.0

package debug_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/manager/debug"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// The handler shows what happens to a Secret of a real store: it is created, rotated,
// forbidden, allowed again and deleted.
func TestLifeOfASecret(t *testing.T) {
	bubble(t, func(r *rig) {
		r.reference("tls")
		if got := r.object(); got.Problem != debug.Absent || got.Phase != objectcache.PhaseAbsent || got.Exists || got.ChangedAt.IsZero() {
			r.Errorf("absent: got %+v, want that the server has no such object", got)
		}

		r.write("tls", "one")
		r.settle()
		first := r.object()
		owner := debug.Owner{Kind: "Pod", Namespace: "default", Name: "web", UID: "web-uid"}
		if first.Problem != "" || first.Stream != objectcache.StreamNamed || first.UID == "" || first.ResourceVersion == "" || *first.AgeSeconds > 1 {
			r.Errorf("created: got %+v, want a named stream, a version and contact a second ago", first)
		}
		if len(first.Owners) != 1 || first.Owners[0] != owner {
			r.Errorf("owners: got %v, want %v", first.Owners, owner)
		}

		r.write("tls", "two")
		r.settle()
		if got := r.object(); got.ResourceVersion == first.ResourceVersion || got.UID != first.UID {
			r.Errorf("rotated: got version %s of %s, want another one of %s", got.ResourceVersion, got.UID, first.UID)
		}

		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			status := apierrors.NewForbidden(corev1.Resource("secrets"), request.Name, nil).Status()
			return &status
		})
		r.server.CloseStreams(nil)
		time.Sleep(time.Minute)
		got := r.object()
		if got.Problem != debug.NotUpdated || got.Phase != objectcache.PhaseNotUpdated || got.NotUpdatedSince.IsZero() || got.Failures == 0 || !strings.Contains(got.LastError, "forbidden") || !got.Exists {
			r.Errorf("forbidden: got %+v, want a failure with its cause, and the last state", got)
		}
		if page := get(r.handler, "").Body.String(); !strings.Contains(page, "failed attempts") || !strings.Contains(page, "forbidden") {
			r.Error("forbidden: the page does not show it")
		}

		r.server.Intercept(nil)
		time.Sleep(time.Minute)
		if got := r.object(); got.Problem != "" || got.Failures != 0 || !strings.Contains(got.LastError, "forbidden") {
			r.Errorf("allowed: got %+v, want no problem, and the earlier error", got)
		}
		if page := get(r.handler, "").Body.String(); !strings.Contains(page, "Earlier error") {
			r.Error("allowed: the page does not show the earlier error")
		}
	})
}

// What an object waits for is the same in the JSON as long as the reason is. The page also shows for how long.
func TestWaitingIsStable(t *testing.T) {
	bubble(t, func(r *rig) {
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			return &apierrors.NewForbidden(corev1.Resource("secrets"), request.Name, nil).ErrStatus
		})
		r.reference("tls")
		time.Sleep(time.Minute)
		shows := false
		for range 10 { // an attempt may be under way
			if got := r.object().Waiting; strings.ContainsAny(got, "0123456789") {
				r.Errorf("got %q, want a text without a time", got)
			}
			page := get(r.handler, "").Body.String()
			shows = shows || regexp.MustCompile(`waiting for the next attempt \(in [0-9.ms]+\)`).MatchString(page)
			time.Sleep(time.Second)
		}
		if !shows {
			r.Error("the page does not show for how long the object waits")
		}
	})
}

// The Gate shows why a stream is not parked, and the page does while such a stream is open.
// A server in memory without TLS has HTTP/1.1.
func TestWhyStreamsAreNotParked(t *testing.T) {
	bubble(t, func(r *rig) {
		r.reference("tls")
		if r.object().Parked {
			r.Error("the object has a parked stream, want one over HTTP/1.1")
		}
		const want = "the server does not speak HTTP/2 over TLS"
		if got := report(r, r.handler, "").Gates[0].NotParked; !strings.Contains(got, want) {
			r.Errorf("Gate: got the reason %q, want %q", got, want)
		}
		shows := func(handler *debug.Handler) bool {
			return strings.Contains(get(handler, "").Body.String(), "A stream could not be parked, and has a goroutine: "+want)
		}
		if !shows(r.handler) {
			r.Error("the page does not show the reason")
		}
		parked := object("tls", objectcache.PhaseServing)
		parked.Parked = true
		others := newHandler(r, debug.Options{
			Sources: map[string]debug.Source{"secrets": source{parked, object("failing", objectcache.PhaseFailing)}},
			Gates:   map[string]*objectcache.Gate{"cluster": r.secrets.Stats().Gate},
		})
		if shows(others) {
			r.Error("the page shows the reason, but its only open stream is parked")
		}
		r.reference()
		if shows(r.handler) {
			r.Error("the page shows the reason, but no stream is open")
		}
		if report(r, r.handler, "").Gates[0].NotParked == "" {
			r.Error("the JSON has no reason any more, want that of the last such stream")
		}
	})
}

// The Gate and the connections show that the server is away, and that it has returned.
func TestServerAway(t *testing.T) {
	bubble(t, func(r *rig) {
		for i := range 5 {
			r.write(fmt.Sprint("tls-", i), "data")
		}
		r.reference("tls-0", "tls-1", "tls-2", "tls-3", "tls-4")
		before := report(r, r.handler, "")
		if got := before.Gates[0]; got.Name != "cluster" || got.Window == 0 || got.Opening+got.Queued+got.Paused != 0 || got.Cause != "" {
			r.Errorf("Gate: got %+v, want one at rest", got)
		}
		if got := before.Connections[0]; got.Open == 0 || got.BytesReceived == 0 || got.Failures != 0 {
			r.Errorf("connections: got %+v, want some that received bytes", got)
		}

		r.server.Close()
		time.Sleep(time.Minute)
		away := report(r, r.handler, "")
		if gate := away.Gates[0]; !strings.Contains(gate.Cause, "connection refused") || gate.CauseTime.IsZero() ||
			away.Time.Sub(gate.OutageSince) < 30*time.Second {
			r.Errorf("Gate: got %+v, want the outage and its cause", gate)
		}
		if got := away.Connections[0]; got.Open != 0 || got.Failures == 0 || !strings.Contains(got.LastError, "connection refused") {
			r.Errorf("connections: got %+v, want none open, and failures", got)
		}
		if got := report(r, r.handler, "?phase=NotUpdated"); len(got.Objects) != 5 {
			r.Errorf("objects that are not updated: got %d, want 5", len(got.Objects))
		}
		if page := get(r.handler, "").Body.String(); !regexp.MustCompile(`Outage</strong> for 5[0-9]s, last seen`).MatchString(page) {
			r.Error("the page does not show the outage, and since when")
		}
	})
}

// No page and no JSON holds object data, whatever happens to the stream.
func TestNoObjectData(t *testing.T) {
	const canary = "canary-4711"
	bubble(t, func(r *rig) {
		var bodies []string
		look := func() {
			r.settle()
			bodies = append(bodies, get(r.handler, "").Body.String(), get(r.handler, "?format=json").Body.String())
			if got := names(report(r, r.handler, "?filter="+canary)); len(got) != 0 {
				r.Errorf("the filter finds object data: %q", got)
			}
		}
		r.write("tls", canary)
		r.reference("tls")
		look()
		r.write("tls", canary+"-2")
		look()
		for _, fault := range []func(){
			func() { r.server.CloseStreams(nil) },
			func() { r.server.Compact(); r.server.CloseStreams(nil) },
			func() { r.server.Close() },
		} {
			fault()
			look()
		}
		for _, body := range bodies {
			for _, form := range []string{"canary", "Y2FuYXJ5", base64.StdEncoding.EncodeToString([]byte(canary)), fmt.Sprintf("%x", canary)} {
				if at := strings.Index(body, form); at >= 0 {
					r.Fatalf("object data as %q: %s", form, body[max(0, at-200):min(len(body), at+200)])
				}
			}
		}
	})
}
