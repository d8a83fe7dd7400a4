// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

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
