// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"runtime"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// BenchmarkNamedWatches opens WatchLists by name over TLS and HTTP/2, keeps them open, and then writes. The cost of an
// open and of a write must not grow with the number of streams. With -benchtime=10000x there are 10,000 streams. The
// memory is that of server and client together.
func BenchmarkNamedWatches(b *testing.B) {
	s := New(b, Options{})
	secrets := s.Client().CoreV1().Secrets("default")
	var watches []watch.Interface
	b.Cleanup(func() {
		for _, w := range watches {
			w.Stop()
		}
	})
	name := func(i int) string { return fmt.Sprintf("secret-%d", i) }
	created := 0
	b.Run("create", func(b *testing.B) {
		for ; b.Loop(); created++ {
			if _, err := secrets.Create(b.Context(), newSecret(name(created)), metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("open", func(b *testing.B) {
		before := inUse()
		opened := 0
		for ; b.Loop(); opened++ {
			w, err := secrets.Watch(b.Context(), named(name(opened%created), watchList()))
			if err != nil {
				b.Fatal(err)
			}
			<-w.ResultChan() // ADDED
			<-w.ResultChan() // BOOKMARK
			watches = append(watches, w)
		}
		b.ReportMetric((float64(inUse())-float64(before))/float64(opened), "B-inuse/stream")
	})
	b.Run("write", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := secrets.Update(b.Context(), newSecret(name(i%created)), metav1.UpdateOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// inUse returns the bytes of heap and stacks in use after a garbage collection.
func inUse() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapInuse + stats.StackInuse
}
