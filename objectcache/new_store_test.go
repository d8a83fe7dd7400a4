// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/clients"
)

var (
	_ objectcache.Store[*corev1.Secret] = (*objectcache.WatchStore[*corev1.Secret])(nil)
	_ objectcache.Store[*corev1.Secret] = (*objectcache.TTLStore[*corev1.Secret])(nil)
	_ objectcache.Store[*corev1.Secret] = (*objectcache.DirectStore[*corev1.Secret])(nil)
)

// The type of the options selects the strategy. With an error the store is nil.
func TestNewStore(t *testing.T) {
	secrets := resource.Secrets(clients.Nowhere())
	for want, options := range map[string]objectcache.StoreOptions{
		"WatchStore[":  nil,
		".WatchStore[": objectcache.WatchOptions{},
		"TTLStore[":    objectcache.TTLOptions{},
		"DirectStore[": objectcache.DirectOptions{},
	} {
		store, err := objectcache.NewStore(secrets, options)
		if err != nil || !strings.Contains(fmt.Sprintf("%T", store), want) {
			t.Errorf("%T: got %T, %v, want a %s", options, store, err, want)
		}
		if store, err := objectcache.NewStore(resource.Secrets(nil), options); err == nil || store != nil {
			t.Errorf("%T without a client: got %T, %v, want an error", options, store, err)
		}
	}
	if _, err := objectcache.NewStore(secrets, &objectcache.TTLOptions{}); err == nil || !strings.Contains(err.Error(), "not a pointer") {
		t.Errorf("pointer: got %v, want an error that says what to pass", err)
	}
	if _, err := objectcache.NewDirectStore(resource.Secrets(nil), objectcache.DirectOptions{}); err == nil {
		t.Error("direct store without a client: got no error")
	}
}
