// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/test/apiserver"
)

const (
	loadHosts      = 10
	loadClients    = 8
	loadHandshakes = 3_000
)

// loadRun is the state of TestHandshakesDuringFaults.
type loadRun struct {
	*rig

	handshakes atomic.Int64
	chaosDone  atomic.Bool
	newest     [loadHosts]atomic.Int64 // the highest serial number that the host is known to present
	progress   chan struct{}           // has a value after a handshake
	ended      chan struct{}           // closed when all clients have ended
}

func hostOf(i int) string { return fmt.Sprintf("host-%d.test", i) }
func nameOf(i int) string { return fmt.Sprintf("tls-%d", i) }

// While certificates rotate, Secrets become garbage, and the API server is killed, restarted or answers with errors,
// each of 3,000 handshakes presents a certificate that is valid for its host. It is never older than one that an
// earlier handshake presented, or than one that the controller reported before.
func TestHandshakesDuringFaults(t *testing.T) {
	l := &loadRun{progress: make(chan struct{}, 1), ended: make(chan struct{})}
	l.rig = newRig(t, func(r *rig) {
		for i := range loadHosts {
			r.create(nameOf(i), hostOf(i))
		}
	})
	var clients sync.WaitGroup
	for range loadClients {
		clients.Go(l.client)
	}
	go func() { clients.Wait(); close(l.ended) }()
	defer func() { <-l.ended }()
	l.chaos()
	<-l.ended
	if n := l.handshakes.Load(); n < loadHandshakes {
		t.Errorf("handshakes: got %d, want at least %d", n, loadHandshakes)
	}
	if counts := l.controller.Counts(); counts.Refused > 0 || counts.Default > 0 {
		t.Errorf("counts: got %+v, want only certificates of Ingresses", counts)
	}
}

// client makes handshakes until there were enough and the chaos is over, or one has failed.
func (l *loadRun) client() {
	for !l.Failed() {
		n := l.handshakes.Add(1)
		if n > loadHandshakes && l.chaosDone.Load() {
			return
		}
		i := int(n % loadHosts)
		newest := l.newest[i].Load()
		serial, err := l.handshake(hostOf(i))
		if err != nil || serial < newest {
			l.Errorf("handshake for %s: got serial number %d and error %v, want at least %d", hostOf(i), serial, err, newest)
			return
		}
		raise(&l.newest[i], serial)
		select {
		case l.progress <- struct{}{}:
		default:
		}
	}
}

func raise(to *atomic.Int64, value int64) {
	for old := to.Load(); old < value && !to.CompareAndSwap(old, value); old = to.Load() {
		continue
	}
}

// chaos rotates the certificates until there were enough handshakes, and injects each fault meanwhile. A second series
// of faults would take long: an object is read at most 15 s after the last of several faults has ended.
func (l *loadRun) chaos() {
	defer l.chaosDone.Store(true)
	for _, inject := range []func() (mend func()){l.killed, l.garbage, l.unavailable, l.compacted, l.hanging, l.killed} {
		l.rotateAll()
		mend := inject()
		l.pass(400)
		mend()
	}
	for l.rotateAll(); l.handshakes.Load() < loadHandshakes && !l.Failed(); l.rotateAll() {
		continue
	}
}

// pass waits until clients have begun n more handshakes, or have ended because one failed.
func (l *loadRun) pass(n int64) {
	for until := l.handshakes.Load() + n; l.handshakes.Load() < until; {
		select {
		case <-l.progress:
		case <-l.ended:
			return
		}
	}
}

// rotateAll rotates each certificate, and waits until the controller reports the new one.
func (l *loadRun) rotateAll() {
	for i := range loadHosts {
		serial := l.rotate(nameOf(i), hostOf(i))
		l.awaitSerial(hostOf(i), serial)
		raise(&l.newest[i], serial)
		l.pass(10)
	}
}

// killed kills the API server. mend restarts it.
func (l *loadRun) killed() func() { return l.kill() }

// unavailable lets the API server answer with 503, and ends all watches.
func (l *loadRun) unavailable() func() {
	return l.answering(func(context.Context, apiserver.Request) *metav1.Status {
		status := apierrors.NewServiceUnavailable("away").Status()
		return &status
	})
}

// hanging lets the API server not answer at all, and ends all watches.
func (l *loadRun) hanging() func() {
	mended := make(chan struct{})
	mend := l.answering(func(ctx context.Context, _ apiserver.Request) *metav1.Status {
		select {
		case <-mended:
		case <-ctx.Done():
		}
		return nil
	})
	return func() { close(mended); mend() }
}

func (l *loadRun) answering(answer apiserver.Interceptor) func() {
	l.apiServer().Intercept(answer)
	l.apiServer().CloseStreams(nil)
	return func() { l.apiServer().Intercept(nil) }
}

// garbage overwrites all Secrets with garbage.
func (l *loadRun) garbage() func() {
	for i := range loadHosts {
		l.update(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: nameOf(i)}, Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{corev1.TLSCertKey: []byte("garbage"), corev1.TLSPrivateKeyKey: []byte("garbage")},
		})
	}
	return func() {}
}

// compacted drops the history of the API server, and ends all watches: each is read again.
func (l *loadRun) compacted() func() {
	l.apiServer().Compact()
	l.apiServer().CloseStreams(nil)
	return func() {}
}
