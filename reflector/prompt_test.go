// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
)

// promptSlot is a slot that says whether it is prompt.
type promptSlot struct {
	*cache.Slot[*corev1.Secret]

	prompt bool
}

func (s promptSlot) IsPrompt() bool { return s.prompt }

// A small event of a prompt store is stored on the goroutine that reads the connection, and any other one is not.
func TestPromptStore(t *testing.T) {
	type test struct{ prompt, small, stored bool }
	tests := map[string]test{
		"prompt":        {true, true, true},
		"a large event": {true, false, false},
		"another store": {false, true, false},
	}
	eachCase(t, tests, func(t *testing.T, test test) {
		stream, slot := newConnected(), promptSlot{newSecretSlot(), test.prompt}
		startParked(t, watching(stream.answer), slot, nil)
		after(time.Minute)
		for _, version := range []string{"6", "7"} {
			stream.queueEvents(event(watch.Modified, secret(version)))
			stream.wake.Wake(test.small)
			if got := slot.Load().ResourceVersion == version; got != test.stored {
				t.Errorf("version %s when Wake has returned: stored is %v, want %v", version, got, test.stored)
			}
			synctest.Wait()
			if got := slot.Load().ResourceVersion; got != version {
				t.Errorf("later: got version %s, want %s", got, version)
			}
		}
	})
}

// Events that come while a worker handles the stream are stored by that worker, and those that are too many for one turn
// by another. None is lost, and their order is kept.
func TestPromptStoreWithManyEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream, slot := newConnected(), promptSlot{newSecretSlot(), true}
		startParked(t, watching(stream.answer), slot, nil)
		after(time.Minute)
		var events []watch.Event
		for _, version := range []string{"6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20", "21", "22", "23"} {
			events = append(events, event(watch.Modified, secret(version)))
		}
		stream.queueEvents(events...)
		stream.wake.Wake(true)
		if got := slot.Load().ResourceVersion; got != "21" { // 16 events a turn
			t.Errorf("after a turn: got version %s, want 21", got)
		}
		synctest.Wait()
		if got := slot.Load().ResourceVersion; got != "23" {
			t.Errorf("in the end: got version %s, want 23", got)
		}
	})
}

// The goroutine that reads the connection does not wait for the logger when a session ends.
func TestPromptStoreWithASlowLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger := funcr.New(func(string, string) { time.Sleep(time.Hour) }, funcr.Options{Verbosity: 4})
		stream, slot := newConnected(), promptSlot{newSecretSlot(), true}
		r := reflector.New(watching(stream.answer), slot, reflector.Options{})
		ended := make(chan struct{})
		r.Start(klog.NewContext(t.Context(), logger), func() { close(ended) })
		after(time.Minute)
		stream.mu.Lock()
		stream.end = errors.New("reset")
		stream.mu.Unlock()
		began := time.Now()
		stream.wake.Wake(true)
		if took := time.Since(began); took > 0 {
			t.Errorf("Wake took %v, want no time", took)
		}
		r.Stop()
		<-ended
	})
}
