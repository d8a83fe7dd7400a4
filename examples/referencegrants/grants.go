// SPDX-License-Identifier: Apache-2.0

package referencegrants

import (
	"context"
	"fmt"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/reflector"
)

// Resource is that of the ReferenceGrants. Before v1.5 Gateway API has them as v1beta1 only.
var Resource = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "referencegrants"}

// grant has the fields of a ReferenceGrant that matter here.
type grant struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		From []struct {
			Group     string `json:"group"`
			Kind      string `json:"kind"`
			Namespace string `json:"namespace"`
		} `json:"from"`
		To []struct {
			Group string `json:"group"`
			Kind  string `json:"kind"`
			Name  string `json:"name"` // empty: all
		} `json:"to"`
	} `json:"spec"`
}

// Grants holds the ReferenceGrants of the cluster. The zero value holds none. Its methods may be called concurrently.
type Grants struct {
	byNamespace atomic.Pointer[map[string][]grant]
}

// Watch returns a reflector that keeps the grants equal to those on the server, and calls changed after each change.
// The caller runs it. changed must return soon.
func (g *Grants) Watch(client dynamic.Interface, gate *objectcache.Gate, changed func()) *reflector.Reflector {
	grants := client.Resource(Resource)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return grants.List(ctx, options)
		},
		WatchFuncWithContext: grants.Watch,
	}
	// The store calls the function with all grants after each event.
	store := &cache.UndeltaStore{Store: cache.NewStore(cache.MetaNamespaceKeyFunc), PushFunc: func(objects []any) {
		g.Replace(objects)
		changed()
	}}
	return reflector.New(source, store,
		reflector.Options{Name: "referencegrants", Resource: "referencegrants", Gate: gate})
}

// Replace replaces the grants with those of the objects, which are unstructured, as the dynamic client returns them.
// Another object, or one that is no ReferenceGrant, is logged and grants nothing.
func (g *Grants) Replace(objects []any) {
	byNamespace := map[string][]grant{}
	for _, object := range objects {
		var next grant
		u, ok := object.(*unstructured.Unstructured)
		if !ok {
			klog.ErrorS(nil, "A ReferenceGrant has the wrong Go type", "type", fmt.Sprintf("%T", object))
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &next); err != nil {
			klog.ErrorS(err, "A ReferenceGrant cannot be read", "referenceGrant", klog.KObj(u))
			continue
		}
		byNamespace[next.Namespace] = append(byNamespace[next.Namespace], next)
	}
	g.byNamespace.Store(&byNamespace)
}

// Permits is a [manager.ReferencePolicy] for Secrets. The kind of an owner has the group with it, as in
// "Gateway.gateway.networking.k8s.io".
func (g *Grants) Permits(owner manager.Owner, secret types.NamespacedName) error {
	if owner.Namespace == secret.Namespace {
		return nil
	}
	if all := g.byNamespace.Load(); all != nil {
		from := schema.ParseGroupKind(owner.Kind)
		for i := range (*all)[secret.Namespace] {
			if grant := &(*all)[secret.Namespace][i]; grant.isFrom(from, owner.Namespace) && grant.isTo(secret.Name) {
				return nil
			}
		}
	}
	return fmt.Errorf("no ReferenceGrant in the namespace %q permits it: create one there", secret.Namespace)
}

func (g *grant) isFrom(kind schema.GroupKind, namespace string) bool {
	for _, from := range g.Spec.From {
		if from.Group == kind.Group && from.Kind == kind.Kind && from.Namespace == namespace {
			return true
		}
	}
	return false
}

// isTo reports whether the grant is for a Secret. The group of Secrets is the empty one.
func (g *grant) isTo(name string) bool {
	for _, to := range g.Spec.To {
		if to.Group == "" && to.Kind == "Secret" && (to.Name == "" || to.Name == name) {
			return true
		}
	}
	return false
}
