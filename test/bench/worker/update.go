// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/test/bench/workload"
)

// updateTimeout is how long an update may take to be seen.
const updateTimeout = 30 * time.Second

// changes is where a contender delivers what has changed.
type changes struct{ expected atomic.Pointer[expectation] }

// expectation is the one edition of a secret that is being waited for.
type expectation struct {
	name  string
	value []byte
	seen  chan time.Time // has room for one
}

// arrived is called by the contender with every state of every secret.
func (c *changes) arrived(secret *corev1.Secret) {
	expected := c.expected.Load()
	if expected == nil || secret.Name != expected.name || !bytes.Equal(workload.ValueOf(secret), expected.value) {
		return
	}
	select {
	case expected.seen <- time.Now():
	default: // told twice
	}
}

// UpdateArgs say what [OpUpdate] does.
type UpdateArgs struct {
	Count int `json:"count"`
	// Edition is that of the first update. No secret may have had it or a later one.
	Edition int64 `json:"edition"`
}

// update changes one secret after another on the server, and waits until each change is seen.
func (w *worker) update(ctx context.Context, args UpdateArgs) (updated Updated, err error) {
	for i := range args.Count {
		// Far from each other, so that they share neither a connection nor what a cache has just touched.
		name := w.names[i*37%len(w.names)]
		if err := w.updateOne(ctx, name, args.Edition+int64(i), &updated); err != nil {
			return updated, err
		}
	}
	return updated, nil
}

func (w *worker) updateOne(ctx context.Context, name string, edition int64, updated *Updated) error {
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	secret := w.set().Secret(name, edition)
	expected := &expectation{name, workload.ValueOf(secret), make(chan time.Time, 1)}
	w.changes.expected.Store(expected)
	defer w.changes.expected.Store(nil)
	visible := make(chan time.Time, 1)
	go func() {
		defer close(visible)
		w.spin(ctx, expected, visible)
	}()

	sent := time.Now()
	_, err := w.client.CoreV1().Secrets(secret.Namespace).Update(ctx, secret, metav1.UpdateOptions{})
	response := time.Now()
	if err != nil {
		cancel()
		<-visible
		return fmt.Errorf("updating %s: %w", name, err)
	}
	seen, ok := <-visible
	if !ok {
		return fmt.Errorf("an update of %s is not visible to Get after %v", name, updateTimeout)
	}
	updated.GetSinceSent = append(updated.GetSinceSent, milliseconds(seen.Sub(sent)))
	updated.GetSinceResponse = append(updated.GetSinceResponse, milliseconds(seen.Sub(response)))
	if !w.follows {
		return nil
	}
	select {
	case seen = <-expected.seen:
	case <-ctx.Done():
		return fmt.Errorf("an update of %s is not delivered after %v", name, updateTimeout)
	}
	updated.ChangeSinceSent = append(updated.ChangeSinceSent, milliseconds(seen.Sub(sent)))
	updated.ChangeSinceResponse = append(updated.ChangeSinceResponse, milliseconds(seen.Sub(response)))
	return nil
}

// spin gets a secret over and over, until it is what is expected. It takes all of a core.
func (w *worker) spin(ctx context.Context, expected *expectation, visible chan<- time.Time) {
	for ctx.Err() == nil {
		secret, err := w.contender.Get(ctx, w.set().Namespace, expected.name)
		if err == nil && bytes.Equal(workload.ValueOf(secret), expected.value) {
			visible <- time.Now()
			return
		}
		runtime.Gosched()
	}
}
