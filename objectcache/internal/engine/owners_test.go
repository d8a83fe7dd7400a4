// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// The owners agree with a map of them, whatever comes and goes in whichever order.
func TestOwnersAgreeWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o Owners
		numbers, counts, lists := map[types.UID]uint64{}, map[types.UID]int{}, [][]types.UID{}
		wanted := [][]types.UID{}
		uids := rapid.SampledFrom([]types.UID{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"})
		add := func(t *rapid.T) {
			uid := uids.Draw(t, "uid")
			if o.Add(uid) != (counts[uid] == 0) {
				t.Fatalf("add %s: got the wrong answer", uid)
			}
			if counts[uid]++; counts[uid] == 1 {
				numbers[uid] = o.Reads
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add":  add,
			"more": add, // so that there are many
			"remove": func(t *rapid.T) {
				uid := uids.Draw(t, "uid")
				if gone := o.Remove(uid); counts[uid] == 1 && gone != numbers[uid] || counts[uid] != 1 && gone != 0 {
					t.Fatalf("remove %s: got %d", uid, gone)
				}
				if counts[uid] > 0 {
					counts[uid]--
				}
				if counts[uid] == 0 {
					delete(numbers, uid)
				}
			},
			"list": func(*rapid.T) {
				var want []types.UID
				for uid := range numbers {
					want = append(want, uid)
				}
				slices.Sort(want)
				lists, wanted = append(lists, o.List()), append(wanted, want)
			},
			"": func(t *rapid.T) {
				var want uint64
				for _, number := range numbers {
					want = max(want, number)
				}
				if got := o.Newest(); got != want {
					t.Fatalf("newest: got %d, want %d", got, want)
				}
				if got := o.Empty(); got != (len(numbers) == 0) {
					t.Fatalf("empty: got %t", got)
				}
				if o.more != nil && len(o.more.order) > 2*(len(numbers)+1)+1 {
					t.Fatalf("%d reads are kept for %d owners", len(o.more.order), len(numbers))
				}
				for i := range lists { // also those of earlier lists
					if !slices.Equal(lists[i], wanted[i]) {
						t.Fatalf("list: got %v, want %v", lists[i], wanted[i])
					}
				}
			},
		})
	})
}

// All that ask for the owners of an object get one list, which is made when the owners change.
func TestOwnersAreListedOnce(t *testing.T) {
	var o Owners
	for i := range 1000 {
		o.Add(types.UID(fmt.Sprint(i)))
	}
	first := o.List()
	if n := testing.AllocsPerRun(100, func() { o.List() }); n != 0 {
		t.Errorf("list again: got %v allocations, want none", n)
	}
	o.Add("new")
	if second := o.List(); len(first) != 1000 || len(second) != 1001 {
		t.Errorf("got %d and then %d owners, want 1000 and 1001", len(first), len(second))
	}
}

// The newest owners of an object go first.
func BenchmarkRemoveNewestOwners(b *testing.B) {
	for _, n := range []int{200, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				var o Owners
				for i := range n {
					o.Add(types.UID(fmt.Sprint(i)))
				}
				for i := range n {
					o.Remove(types.UID(fmt.Sprint(n - 1 - i)))
					o.Newest()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/owner")
		})
	}
}

// Owners come while somebody follows the changes of the object.
func BenchmarkListOwners(b *testing.B) {
	for _, n := range []int{200, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				var o Owners
				for i := range n {
					o.Add(types.UID(fmt.Sprint(i)))
					o.List()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/owner")
		})
	}
}
