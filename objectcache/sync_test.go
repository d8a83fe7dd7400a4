// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

func keyOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// waitForSync calls WaitForSync with a time-out. It returns how long that took.
func (r *rig) waitForSync(limit time.Duration, names ...string) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	var keys []types.NamespacedName
	for _, name := range names {
		keys = append(keys, keyOf(name))
	}
	began := time.Now()
	err = objectcache.WaitForSync(ctx, r.Store, keys...)
	return time.Since(began), err
}

// answerByPrefix makes the server treat objects by the prefixes of their names.
func (r *rig) answerByPrefix() {
	r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
		switch prefix, _, _ := strings.Cut(request.Name, "-"); prefix {
		case "forbidden":
			return &forbidden().ErrStatus
		case "failing":
			return &apierrors.NewInternalError(errors.New("cannot be decrypted")).ErrStatus
		case "hanging":
			<-ctx.Done()
		}
		return nil
	})
}

// Existing, absent and immutable objects sync. The wait ends with the last of them.
func TestWaitForSync(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.create("sealed", immutable)
		release := r.holdBack("watch")
		names := []string{"tls", "sealed", "absent", "tls"}
		for _, name := range names {
			r.AddReference(namespace, name, "pod")
		}
		time.AfterFunc(3*time.Second, release)
		if took, err := r.waitForSync(time.Minute, names...); err != nil || took != 3*time.Second {
			t.Errorf("got %v after %v, want nil after 3 s", err, took)
		}
		if took, err := r.waitForSync(time.Minute, names...); err != nil || took != 0 {
			t.Errorf("synced: got %v after %v, want nil at once", err, took)
		}
		if took, err := r.waitForSync(time.Minute); err != nil || took != 0 {
			t.Errorf("no keys: got %v after %v, want nil at once", err, took)
		}
	})
}

// The wait for 1,000 objects ends when the refused ones have been refused for the
// grace, or with its context. Good objects are synced by then, and the error has the
// cause of each other one, in a short text.
func TestWaitForSyncOfManyWithBadNeighbours(t *testing.T) {
	crowd(t)
	manyStreams(t)
	tests := map[string]struct {
		count int
		bad   []string
		took  time.Duration
		is    func(error) bool
	}{
		"forbidden": {100, []string{"forbidden"}, 5 * time.Second, apierrors.IsForbidden},
		"failing":   {100, []string{"failing"}, time.Minute, apierrors.IsInternalError},
		"hanging":   {100, []string{"hanging"}, time.Minute, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
		"all":       {fewer(100) * 10, []string{"forbidden", "failing", "hanging"}, time.Minute, apierrors.IsInternalError},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.answerByPrefix()
				var names []string
				for i := range test.count {
					name := fmt.Sprintf("good-%d", i)
					if i%10 == 0 {
						name = fmt.Sprintf("%s-%d", test.bad[i/10%len(test.bad)], i)
					}
					names = append(names, name)
					r.AddReference(namespace, name, "pod")
				}
				took, err := r.waitForSync(time.Minute, names...)
				if took > test.took || !errors.Is(err, objectcache.ErrNotSynced) || !test.is(err) || apierrors.IsNotFound(err) {
					t.Errorf("got %v after %v, want the causes within %v", err, took, test.took)
				}
				first := fmt.Sprintf(`%d of %d objects did not sync: secrets "default/`, test.count/10, test.count)
				last := fmt.Sprintf("; and %d more", test.count/10-5)
				if text := fmt.Sprint(err); len(text) > 2000 || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
					t.Errorf("text: got %q, want the first five and a count", text)
				}
				for _, name := range names {
					status, _ := r.Status(namespace, name)
					if good := strings.HasPrefix(name, "good"); status.Synced != good {
						t.Errorf("%s: got synced %v, want %v", name, status.Synced, good)
					}
				}
			})
		})
	}
}

func TestWaitForSyncErrors(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		var none context.Context
		if err := objectcache.WaitForSync(none, r.Store, keyOf("tls")); !errors.Is(err, objectcache.ErrNilContext) {
			t.Errorf("nil context: got %v, want ErrNilContext", err)
		}
		r.AddReference(namespace, "tls", "pod")
		took, err := r.waitForSync(time.Minute, "tls", "other", "In valid", "other")
		want := `1 of 3 objects did not sync: secrets "default/other": `
		if !errors.Is(err, objectcache.ErrNotRegistered) || took != 0 || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v after %v, want ErrNotRegistered at once", err, took)
		}
		release := r.holdBack("watch")
		r.AddReference(namespace, "late", "pod")
		ended := make(chan error)
		go func() { _, err := r.waitForSync(time.Minute, "late"); ended <- err }()
		synctest.Wait()
		r.DeleteReference(namespace, "late", "pod")
		if err := <-ended; !errors.Is(err, objectcache.ErrNotRegistered) {
			t.Errorf("reference deleted: got %v, want ErrNotRegistered", err)
		}
		release()
		r.stop()
		if _, err := r.waitForSync(time.Minute, "tls"); !errors.Is(err, objectcache.ErrStopped) {
			t.Errorf("stopped: got %v, want ErrStopped", err)
		}
	})
}

// WaitForSync counts no Gets, however many objects it waits for, and counts as none.
func TestWaitForSyncIsNotCounted(t *testing.T) {
	for name, options := range map[string]objectcache.StoreOptions{
		"watch": objectcache.WatchOptions{}, "TTL": objectcache.TTLOptions{}, "direct": objectcache.DirectOptions{},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, options, func(t *testing.T, r *rig) {
				r.create("tls")
				r.AddReference(namespace, "tls", "pod")
				r.AddReference(namespace, "absent", "pod")
				keys := []types.NamespacedName{{Namespace: namespace, Name: "tls"}, {Namespace: namespace, Name: "absent"}}
				got := r.countedGet(func() {
					for range 7 {
						if err := objectcache.WaitForSync(t.Context(), r.Store, keys...); err != nil {
							t.Error(err)
						}
					}
				})
				if len(got) > 0 {
					t.Errorf("counted: got %v, want none", got)
				}
			})
		})
	}
}
