// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/test/apiserver"
)

// versionedStore records the versions that it is told, and has a method of the stores of this module by chance.
type versionedStore struct {
	toolscache.Store

	mu        sync.Mutex
	bookmarks []string
	versions  []string
	asked     bool
	changed   chan struct{}
}

func (s *versionedStore) Bookmark(version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bookmarks = append(s.bookmarks, version)
	return nil
}

func (s *versionedStore) UpdateResourceVersion(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions = append(s.versions, version)
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *versionedStore) Holds([]any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = true
	return false
}

func (s *versionedStore) CheckRead([]any, string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = true
	return nil
}

// A store gets the bookmarks and versions of client-go's interfaces. Its other methods are its own.
func TestStoreOfAProgram(t *testing.T) {
	server := apiserver.New(t, apiserver.Options{BookmarkInterval: 10 * time.Millisecond})
	client := server.Client().CoreV1()
	store := &versionedStore{Store: toolscache.NewStore(toolscache.MetaNamespaceKeyFunc), changed: make(chan struct{}, 1)}
	lw := toolscache.NewListWatchFromClient(client.RESTClient(), "configmaps", "default", fields.Everything())
	ctx, cancel := context.WithCancel(t.Context())
	r := reflector.New(lw, store, reflector.Options{})
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	var created *corev1.ConfigMap
	for i := range 2 {
		<-store.changed
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("settings-", i)}}
		var err error
		if created, err = client.ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for range store.changed {
		store.mu.Lock()
		done := slices.Contains(store.versions, created.ResourceVersion) && len(store.bookmarks) > 0
		store.mu.Unlock()
		if done {
			break
		}
	}
	cancel()
	running.Wait()
	if store.asked {
		t.Error("a method of the store that is no method of client-go's interfaces was called")
	}
}
