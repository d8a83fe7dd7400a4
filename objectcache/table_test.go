// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

func newSecretEntry(name int) *entry[*corev1.Secret] {
	return &entry[*corev1.Secret]{key: types.NamespacedName{Namespace: fmt.Sprint(name % 3), Name: fmt.Sprint(name / 3)}}
}

// checkTable compares a table with a map.
func checkTable(t rapid.TB, table *table[*corev1.Secret], want map[types.NamespacedName]*entry[*corev1.Secret]) {
	count := 0
	for e := range table.all() {
		if count++; want[e.key] != e {
			t.Fatalf("got an entry of %v that was removed, or another one", e.key)
		}
	}
	if count != len(want) || table.count != count {
		t.Fatalf("got %d entries, and a count of %d; want %d", count, table.count, len(want))
	}
	for key, e := range want {
		if table.load(key) != e {
			t.Fatalf("%v: got another entry, or none", key)
		}
	}
}

// A table holds what a map holds, whatever is stored and removed.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, want := newTable[*corev1.Secret](), map[types.NamespacedName]*entry[*corev1.Secret]{}
		keys := rapid.IntRange(1, 200).Draw(t, "keys")
		for range rapid.IntRange(0, 1000).Draw(t, "steps") {
			e := newSecretEntry(rapid.IntRange(0, keys-1).Draw(t, "key"))
			if _, ok := want[e.key]; ok {
				table.remove(e.key)
				delete(want, e.key)
			} else {
				table.store(e)
				want[e.key] = e
			}
			if _, ok := want[e.key]; !ok && table.load(e.key) != nil {
				t.Fatalf("%v: got an entry that was removed", e.key)
			}
		}
		checkTable(t, table, want)
	})
}

// The slots follow the number of entries, up and down, and a key that comes and goes takes none.
func TestTableSize(t *testing.T) {
	table, most := newTable[*corev1.Secret](), 0
	for i := range 10_000 {
		table.store(newSecretEntry(i))
		if size := len(*table.slots.Load()); size > smallestTable && size > 4*(i+1) {
			t.Fatalf("got %d slots for %d entries", size, i+1)
		}
	}
	most = len(*table.slots.Load())
	for range 20_000 {
		table.remove(newSecretEntry(7).key)
		table.store(newSecretEntry(7))
	}
	if got := len(*table.slots.Load()); got != most || table.used != 10_000 {
		t.Errorf("after changes of one entry: got %d slots, of which %d are used; want %d and 10,000", got, table.used, most)
	}
	for i := range 20_000 {
		table.remove(newSecretEntry(i).key)
		table.store(newSecretEntry(i + 10_000))
	}
	if got := len(*table.slots.Load()); got > 2*most {
		t.Errorf("after 20,000 other entries in turn: got %d slots, want %d at most", got, 2*most)
	}
	for i := range 10_000 {
		table.remove(newSecretEntry(i + 20_000).key)
		if size := len(*table.slots.Load()); size < smallestTable {
			t.Fatalf("got %d slots, want %d at least", size, smallestTable)
		}
	}
	if got := len(*table.slots.Load()); got != smallestTable {
		t.Errorf("without entries: got %d slots, want %d", got, smallestTable)
	}
}

// Entries that stay are found at any time, while others come and go and the table is replaced.
func TestTableBesideChanges(t *testing.T) {
	table, stop := newTable[*corev1.Secret](), make(chan struct{})
	for i := range 100 {
		table.store(newSecretEntry(i))
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for i := 0; ; i++ {
				key := newSecretEntry(i % 100).key
				if e := table.load(key); e == nil || e.key != key {
					t.Errorf("%v: got another entry, or none", key)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		n := 100 + random.IntN(1000)
		for i := 100; i < n; i++ {
			table.store(newSecretEntry(i))
		}
		runtime.Gosched()
		for i := 100; i < n; i++ {
			table.remove(newSecretEntry(i).key)
		}
	}
	close(stop)
	readers.Wait()
}

func churnKey(prefix string, i int) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: fmt.Sprintf("%s-%d", prefix, i)}
}

// Statuses yields no object whose last reference goes while the loop runs, also if the table is replaced meanwhile.
func TestStatusesBesideRemoval(t *testing.T) {
	const objects = 500
	s := newTestStore(t, WatchOptions{})
	for i := range objects {
		s.AddReference("default", churnKey("going", i).Name, "pod")
	}
	yielded := 0
	for range s.Statuses() {
		if yielded++; yielded > 1 {
			continue
		}
		for i := range objects {
			s.DeleteReference("default", churnKey("going", i).Name, "pod")
		}
	}
	if yielded != 1 {
		t.Errorf("got %d statuses, want that of the first object only", yielded)
	}
	waitForBackground(s)
}
