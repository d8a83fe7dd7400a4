// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// ownSecret is a Secret of the program, which decodes it itself.
type ownSecret struct{ corev1.Secret }

// ownDecoder is called with each ownSecret.
var ownDecoder atomic.Pointer[func(*ownSecret)]

func (s *ownSecret) Unmarshal(protobuf []byte) error {
	if err := s.Secret.Unmarshal(protobuf); err != nil {
		return err
	}
	(*ownDecoder.Load())(s)
	return nil
}

func (s *ownSecret) DeepCopyObject() runtime.Object { return &ownSecret{*s.DeepCopy()} }

type ownSecretList struct {
	metav1.TypeMeta
	metav1.ListMeta `json:"metadata"`

	Items []ownSecret `json:"items"`
}

func (l *ownSecretList) DeepCopyObject() runtime.Object {
	other := *l
	return &other
}

// A method of the program decodes objects, and blocks for one of them. The changes of others arrive on the same
// connection.
func TestDecodingOfATypeOfTheProgramBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
		free := make(chan struct{})
		decode := func(s *ownSecret) {
			if s.Name == "blocks" && string(s.Data["password"]) == "1" {
				<-free
			}
		}
		ownDecoder.Store(&decode)
		kind := resource.FromConfig[*ownSecret, *ownSecretList](r.server.Config(), corev1.SchemeGroupVersion.WithResource("secrets"))
		store := newStore(t, kind, objectcache.WatchOptions{})
		stop := runStore(t.Context(), t, store)
		for _, name := range []string{"blocks", "tls"} {
			r.create(name)
			store.AddReference(namespace, name, "pod")
			if _, err := store.Get(t.Context(), namespace, name); err != nil {
				t.Fatal(err)
			}
		}
		r.update("blocks", "1")
		time.Sleep(100 * time.Millisecond)
		r.update("tls", "1")
		time.Sleep(time.Second)
		if got, err := store.TryGet(namespace, "blocks"); err != nil || string(got.Data["password"]) == "1" {
			t.Errorf("got %v and error %v, want that its decoding blocks", got, err)
		}
		if got, err := store.TryGet(namespace, "tls"); err != nil || string(got.Data["password"]) != "1" {
			t.Errorf("a second after its change: got %v and error %v, want 1", got, err)
		}
		close(free)
		stop()
	})
}
