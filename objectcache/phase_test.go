// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// Phases returns each constant of type Phase once, in the order of the source.
func TestPhasesAreComplete(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "status.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var want []objectcache.Phase
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Phase" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, objectcache.Phase(value))
		}
		return true
	})
	if got := objectcache.Phases(); len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("Phases: got %q, want %q", got, want)
	}
}

// An object whose stream had ended and could not be opened again was in the phase
// Watching, because nothing had failed. A stream that is opened again within 5 s is no news.
func TestIssue8NotWatchingWithoutAStream(t *testing.T) {
	tests := map[string]struct {
		server apiserver.Options
		hangs  string // the verb
	}{
		"WatchList":      {apiserver.Options{InMemory: true}, "watch"},
		"list and watch": {apiserver.Options{InMemory: true, DisableWatchList: true}, "list"},
		"only the watch": {apiserver.Options{InMemory: true, DisableWatchList: true}, "watch"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, test.server, objectcache.WatchOptions{})
				r.run()
				r.create("tls")
				r.AddReference(namespace, "tls", "pod")
				r.mustGet("tls")
				if got := r.phase("tls"); got != servingNamed {
					t.Fatalf("phase: got %s, want Serving", got)
				}
				release := r.holdBack(test.hangs)
				r.server.CloseStreams(nil)
				synctest.Wait()
				cut := time.Now()
				for i := range 20 {
					time.Sleep(time.Second)
					status, _ := r.Status(namespace, "tls")
					since := status.NotUpdatedSince
					switch phase := r.phase("tls"); {
					case i < 4 && phase == servingNamed && since.IsZero():
					case i > 5 && phase == objectcache.PhaseNotUpdated && since.Sub(cut) >= 0 && since.Sub(cut) <= 200*time.Millisecond:
					case i == 4, i == 5: // a list may have been read 0.2 s after the cut
					default:
						t.Errorf("after %v: got phase %s, not updated since %v", time.Since(cut), phase, since)
					}
				}
				r.mustGet("tls")
				release()
				time.Sleep(time.Minute)
				if got := r.phase("tls"); got != servingNamed {
					t.Errorf("phase: got %s, want Serving again", got)
				}
				r.stop()
			})
		})
	}
}

// How changes arrive is known in each phase, failures included.
func TestStatusStream(t *testing.T) {
	want := func(t *testing.T, r *rig, when, name string, phase objectcache.Phase, stream objectcache.StreamType) {
		t.Helper()
		gotPhase := r.phase(name)
		if got, _ := r.Status(namespace, name); gotPhase != phase || got.Stream != stream {
			t.Errorf("%s: got %s and %s, want %s and %s", when, gotPhase, got.Stream, phase, stream)
		}
	}
	t.Run("named", func(t *testing.T) {
		beforeRun(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
			r.create("tls")
			r.create("sealed", immutable)
			r.AddReference(namespace, "tls", "pod")
			r.AddReference(namespace, "sealed", "pod")
			want(t, r, "before Run", "tls", objectcache.PhasePending, objectcache.StreamNone)
			r.run()
			want(t, r, "running", "tls", servingNamed, objectcache.StreamNamed)
			want(t, r, "immutable", "sealed", servingImmutable, objectcache.StreamNone)
			release := r.holdBack("watch")
			r.server.CloseStreams(nil)
			time.Sleep(6 * time.Second)
			want(t, r, "the stream ended", "tls", objectcache.PhaseNotUpdated, objectcache.StreamNamed)
			r.refuse(unavailable())
			release()
			r.server.Intercept(func(context.Context, apiserver.Request) *metav1.Status { return r.down.Load() })
			time.Sleep(time.Minute)
			r.server.CloseStreams(nil)
			time.Sleep(time.Second)
			want(t, r, "unavailable", "tls", objectcache.PhaseNotUpdated, objectcache.StreamNamed)
			r.stop()
			want(t, r, "stopped", "tls", objectcache.PhaseStopped, objectcache.StreamNone)
		})
	})
	t.Run("without a stream", func(t *testing.T) {
		inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
			r.create("tls")
			r.AddReference(namespace, "tls", "pod")
			r.mustGet("tls")
			want(t, r, "TTL", "tls", servingOnDemand, objectcache.StreamNone)
		})
	})
}
