// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// unclosed is a ListerWatcher whose watches do not close their channel when they are
// stopped, as apimachinery's ProxyWatcher does not.
type unclosed struct {
	*fakeSource

	open []*watch.ProxyWatcher
}

func (u *unclosed) source() listwatch.Source {
	return listwatch.FromListerWatcher(toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc: u.List,
		WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			u.record("watch", options)
			u.open = append(u.open, watch.NewProxyWatcher(make(chan watch.Event)))
			return u.open[len(u.open)-1], nil
		},
	}, noWatchList{}))
}

// A watch that does not close its channel when it is stopped does not hold up its reflector:
// neither the end of Run, nor the next stream.
func TestWatchThatIsNotClosed(t *testing.T) {
	type test struct {
		end     func(*rig)
		lasts   time.Duration // from then on
		watches int
		class   failure.Class
		version string
	}
	later := []listAnswer{brings("7", secret("5")), brings("9", secret("8"))}
	tests := map[string]test{
		"Stop":          {func(r *rig) { r.stop() }, 0, 1, failure.None, "5"},
		"Refresh":       {func(r *rig) { r.Refresh() }, 3 * time.Second, 2, failure.None, "8"},
		"lost a change": {func(*rig) {}, 5 * time.Minute, 2, failure.Silent, "8"},
	}
	eachCase(t, tests, func(t *testing.T, test test) {
		u := &unclosed{fakeSource: &fakeSource{onList: lists(later...)}}
		r := start(t, u.source(), reflector.Options{})
		synctest.Wait()
		began := time.Now()
		test.end(r)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the end took %v, want two seconds at most", took)
		}
		after(test.lasts)
		if got := u.count("watch"); got != test.watches || failure.Of(r.Status().LastError) != test.class {
			t.Errorf("got %d watches and error %v, want %d and class %v", got, r.Status().LastError, test.watches, test.class)
		}
		if got := r.slot.Load().ResourceVersion; got != test.version {
			t.Errorf("state: got version %s, want %s", got, test.version)
		}
		if !u.open[0].Stopping() && test.watches > 1 {
			t.Error("the watch was not stopped")
		}
	})
}
