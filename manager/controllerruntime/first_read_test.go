// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

// withoutGets refuses GETs, so that no read is hedged. It lets time pass, because no read from the moment of Start
// counts.
func (r *rig) withoutGets() {
	time.Sleep(time.Millisecond)
	r.server.Authorize(func(request apiserver.Request) bool { return request.Resource != "secrets" || request.Verb != "get" })
}

// consistentReads returns how many consistent reads of a Secret there were.
func (r *rig) consistentReads(name string) (count int) {
	synctest.Wait()
	for _, request := range r.server.Requests() {
		if request.Resource == "secrets" && request.Name == name && request.Verb == "watch" && request.Query.Get("resourceVersion") == "" {
			count++
		}
	}
	return count
}

// A worker that gets one Secret after the other shares a consistent read for a second, by default. With Selected and
// StockMetadata handlers have events of Secrets that no Get has asked for: each first read is consistent.
func TestFirstReadMaxAge(t *testing.T) {
	for name, test := range map[string]struct {
		options controllerruntime.CacheOptions
		stock   crcache.Options
		want    int // of 30 Secrets, one each 0.1 s
	}{
		"default":       {want: 3},
		"half a second": {options: controllerruntime.CacheOptions{FirstReadMaxAge: 500 * time.Millisecond}, want: 5},
		"negative":      {options: controllerruntime.CacheOptions{FirstReadMaxAge: -1}, want: 30},
		"StockMetadata": {options: stockMetadata, want: 30},
		"Selected":      {options: selectedSecrets, stock: selections["label"], want: 30},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, test.options, drained(test.stock), func(t *testing.T, r *rig) {
				_, _ = r.get("a first") // the set lists now
				time.Sleep(10 * time.Second)
				r.withoutGets()
				all := 0
				for i := range 30 {
					name := fmt.Sprint("missing-", i)
					if _, err := r.get(name); !apierrors.IsNotFound(err) {
						t.Fatalf("Get %s: got %v, want NotFound", name, err)
					}
					all += r.consistentReads(name)
					time.Sleep(100 * time.Millisecond)
				}
				if all != test.want {
					t.Errorf("consistent reads: got %d, want %d", all, test.want)
				}
			})
		})
	}
}

// A representation that is read for the first time after a write of the client has that write, also if another one has
// a young consistent read from before it, and the server lags.
func TestFirstReadOfARepresentationAfterAWrite(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, drained(crcache.Options{}), func(t *testing.T, r *rig) {
		c := r.consistent()
		r.create("one", "1")
		r.create("two", "1")
		r.withoutGets()
		r.wantValue("two", "1")
		r.server.Lag(time.Second)
		if err := c.Update(t.Context(), secretNamed("one", "2")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
		written, metadata := r.server.ResourceVersion(), secretMetadata()
		if err := c.Get(t.Context(), keyOfOne, metadata); err == nil && metadata.GetResourceVersion() != written {
			t.Errorf("got version %s, want %s or an error", metadata.GetResourceVersion(), written)
		}
		r.server.CatchUp()
		time.Sleep(10 * time.Second)
		if err := c.Get(t.Context(), keyOfOne, metadata); err != nil || metadata.GetResourceVersion() != written {
			t.Errorf("when the server has caught up: got version %s and %v, want %s", metadata.GetResourceVersion(), err, written)
		}
	})
}

// The first Get in a representation is consistent if handlers of another one know that the object was deleted.
func TestFirstReadAfterADeletionElsewhere(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, drained(crcache.Options{}), func(t *testing.T, r *rig) {
		r.record(secretMetadata())
		r.create("one", "1")
		r.create("two", "1")
		r.create("three", "1")
		r.withoutGets()
		if err := r.cache.Get(t.Context(), keyOfOne, secretMetadata()); err != nil {
			t.Fatal(err)
		}
		r.wantValue("three", "1")
		time.Sleep(time.Minute)
		r.wantValue("two", "1")
		r.remove("one")
		before := r.consistentReads("one")
		if _, err := r.get("one"); !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want NotFound", err)
		}
		if got := r.consistentReads("one") - before; got != 1 {
			t.Errorf("consistent reads: got %d, want 1", got)
		}
	})
}
