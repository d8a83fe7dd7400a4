// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/manager/controllerruntime"
)

// The streams of all kinds of reads are parked, unless the option is set.
func TestStreamsAreParked(t *testing.T) {
	metadata := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}
	for name, object := range map[string]client.Object{"typed": &corev1.Secret{}, "metadata": metadata} {
		for _, blocking := range []bool{false, true} {
			options := controllerruntime.CacheOptions{BlockingStreams: blocking}
			t.Run(name, func(t *testing.T) {
				inBubble(t, options, cache.Options{}, func(t *testing.T, r *rig) {
					r.create("tls", "0")
					if err := r.cache.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "tls"}, object); err != nil {
						t.Fatal(err)
					}
					r.update("tls", "1")
					if got := streamReaders(); (got > 0) != blocking {
						t.Errorf("BlockingStreams %v: got %d goroutines that read streams", blocking, got)
					}
				})
			})
		}
	}
}

// streamReaders returns how many goroutines read streams that are not parked.
func streamReaders() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "reflector.(*session).runStream(")
}
