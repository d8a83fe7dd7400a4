// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/refwatch/refwatch/objectcache"
)

// TestRetry: a volume that cannot be written is tried again without a change on the server.
func TestRetry(t *testing.T) {
	r := newRig(t)
	r.setSecret("s", "k", "1")
	r.start()
	r.stop()
	pod := r.createPod("web-1", "node-1", secretVolume("s"))
	// A file takes the place of the pod's folder.
	blocker := filepath.Join(r.root, "pods", string(pod.UID))
	if err := os.WriteFile(blocker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.eventuallyFails(pod, "s", "not a directory")
	if err := os.Remove(blocker); err != nil {
		t.Fatal(err)
	}
	r.eventuallyHas(pod, "s", "k", "1")
}

// TestSameVersionOtherContent: a pod with the same version and other content, as after an etcd restore, is synced.
func TestSameVersionOtherContent(t *testing.T) {
	r := newRig(t)
	r.setSecret("s", "k", "1")
	r.setSecret("t", "k", "2")
	r.start()
	r.eventuallySynced(r.createPod("seed", "node-1"))
	pod := func(volume string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: meta("web-1")}
		p.UID, p.ResourceVersion, p.Spec.Volumes = "uid-1", "7", []corev1.Volume{secretVolume(volume)}
		return p
	}
	r.agent.setPods([]any{pod("s")})
	r.eventuallyHas(pod("s"), "s", "k", "1")
	r.agent.setPods([]any{pod("t")})
	r.eventuallyHas(pod("t"), "t", "k", "2")
}

// TestReplacedPodKeepsStream: when one pod replaces another in one step, an object that both reference keeps its
// stream.
func TestReplacedPodKeepsStream(t *testing.T) {
	r := newRig(t)
	r.setSecret("s", "k", "1")
	r.start()
	pod := func(uid types.UID) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: meta("web-1")}
		p.UID, p.ResourceVersion, p.Spec.Volumes = uid, string(uid), []corev1.Volume{secretVolume("s")}
		return p
	}
	// Once this pod is synced, the reflector has delivered everything: the test can call setPods in its place.
	r.eventuallySynced(r.createPod("seed", "node-1"))
	r.agent.setPods([]any{pod("uid-1")})
	r.eventuallyHas(pod("uid-1"), "s", "k", "1")
	r.agent.setPods([]any{pod("uid-2")})
	r.eventuallyHas(pod("uid-2"), "s", "k", "1")
	r.eventuallyGone(pod("uid-1"))
	opens := 0
	for _, request := range r.server.Requests() {
		if request.Resource == "secrets" && request.Verb == "watch" {
			opens++
		}
	}
	if opens != 1 {
		t.Errorf("watches of the secret: got %d, want 1", opens)
	}
}

// TestStatusOrder: the status has the volumes in the order of the spec.
func TestStatusOrder(t *testing.T) {
	r := newRig(t)
	r.setSecret("b", "k1", "1", "k2", "2")
	pod := r.createPod("web-1", "node-1", secretVolume("c"), secretVolume("b"), optional(secretVolume("a")))
	r.start()
	r.eventuallyFails(pod, "c", "not found")
	r.eventually("b in the status", func() error { // its answer may come after that for c
		if got := r.agent.Status()[pod.UID].volume("b"); got.Files != 2 {
			return fmt.Errorf("status: got %+v, want 2 files", got)
		}
		return nil
	})
	status := r.agent.Status()[pod.UID]
	if status.Name != "web-1" || status.Namespace != metav1.NamespaceDefault || len(status.Volumes) != 3 {
		t.Fatalf("status: got %v, want that of web-1 with 3 volumes", status)
	}
	for i, want := range []VolumeStatus{{Name: "c"}, {Name: "b", Files: 2}, {Name: "a"}} {
		got := status.Volumes[i]
		if got.Name != want.Name || got.Files != want.Files || got.Path != r.path(pod, want.Name) {
			t.Errorf("volume %d: got %v, want %v at %s", i, got, want, r.path(pod, want.Name))
		}
	}
}

// TestLogsErrorOnce: an error is logged when it begins and when its cause changes, and not while it lasts.
func TestLogsErrorOnce(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	a := &Agent{status: newStatuses()}
	report := func(err error) {
		volume := VolumeStatus{Name: "v", Err: err}
		if got := a.report(ctx, PodStatus{UID: "uid-1", Namespace: "ns", Name: "web-1", Volumes: []VolumeStatus{volume}}); !errors.Is(got, err) {
			t.Errorf("report: got error %v, want %v", got, err)
		}
	}
	logged := func() int {
		errs := 0
		for _, entry := range logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
			if entry.Type == ktesting.LogError {
				errs++
				if !strings.Contains(entry.Message, "will retry") {
					t.Errorf("log: got %q, want one with %q", entry.Message, "will retry")
				}
			}
		}
		return errs
	}
	absent, forbidden := errors.New("absent"), errors.New("forbidden")
	for i, step := range []struct {
		err  error
		want int
	}{{absent, 1}, {absent, 1}, {forbidden, 2}, {forbidden, 2}, {nil, 2}, {nil, 2}, {forbidden, 3}} {
		report(step.err)
		if got := logged(); got != step.want {
			t.Errorf("after report %d, of %v: got %d errors logged, want %d", i+1, step.err, got, step.want)
		}
	}
}

// TestLogsWrittenOnce: tokens that are left out, and sources with a path in common, are logged when they change, and
// not again after an error in between.
func TestLogsWrittenOnce(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	a := &Agent{status: newStatuses()}
	of := func(texts ...string) VolumeStatus {
		return VolumeStatus{Name: "v", written: true, LeftOut: texts, Conflicts: texts}
	}
	for i, step := range []struct {
		status VolumeStatus
		want   int
	}{
		{of("a"), 1}, {of("a"), 1},
		{VolumeStatus{Name: "v", Err: errors.New("absent")}, 1},
		{of("a"), 1}, {of("a", "b"), 2}, {of(), 2}, {of("a"), 3},
	} {
		_ = a.report(ctx, PodStatus{UID: "uid-1", Namespace: "ns", Name: "web-1", Volumes: []VolumeStatus{step.status}})
		log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
		for _, message := range []string{"Wrote the volume without forbidden tokens", "Sources of the volume have a path in common"} {
			if got := strings.Count(log, message); got != step.want {
				t.Errorf("after report %d: got %d lines %q, want %d", i+1, got, message, step.want)
			}
		}
	}
}

// TestLogsNotSyncedLater: ErrNotSynced is logged as an error only after gracePeriod, and once.
func TestLogsNotSyncedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
		ctx := klog.NewContext(t.Context(), logger)
		a := &Agent{status: newStatuses()}
		for i, want := range []int{0, 0, 1, 1} {
			volume := VolumeStatus{Name: "v", Err: fmt.Errorf("secrets \"ns/s\": %w", objectcache.ErrNotSynced)}
			if err := a.report(ctx, PodStatus{UID: "uid-1", Volumes: []VolumeStatus{volume}}); !errors.Is(err, objectcache.ErrNotSynced) {
				t.Errorf("report: got error %v, want ErrNotSynced", err)
			}
			errs := 0
			for _, entry := range logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
				if entry.Type == ktesting.LogError {
					errs++
				}
			}
			if errs != want {
				t.Errorf("after report %d: got %d errors logged, want %d", i+1, errs, want)
			}
			time.Sleep(gracePeriod / 2)
		}
	})
}

// TestChangedBeforeStatus: every change closes the channel that was taken before it.
func TestChangedBeforeStatus(t *testing.T) {
	a := &Agent{status: newStatuses()}
	for _, change := range []func(){
		func() { a.status.set(PodStatus{UID: "uid-1"}) },
		func() { a.status.set(PodStatus{UID: "uid-1"}) },
		func() { a.status.remove("uid-1") },
	} {
		changed := a.Changed()
		select {
		case <-changed:
			t.Fatal("channel: got it closed before a change")
		default:
		}
		change()
		select {
		case <-changed:
		default:
			t.Error("channel: got it open after a change, want it closed")
		}
	}
	if got := a.Status(); len(got) != 0 {
		t.Errorf("status: got %v, want none", got)
	}
}
