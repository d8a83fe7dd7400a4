// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
)

// A reflector writes a slot. The example makes the two calls of a reflector itself.
func ExampleSlot() {
	key := types.NamespacedName{Namespace: "shop", Name: "settings"}
	slot := cache.NewSlot[*corev1.ConfigMap](key)

	next := slot.Changed()
	_ = slot.Replace(nil, "41") // a list that found nothing
	<-next
	fmt.Println("exists:", slot.Load().Exists)

	next = slot.Changed()
	_ = slot.Add(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings", ResourceVersion: "42"},
		Data:       map[string]string{"colour": "blue"},
	})
	<-next
	fmt.Println("colour:", slot.Load().Object.Data["colour"])
	// Output:
	// exists: false
	// colour: blue
}
