// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager"
)

// ListIngresses lists the Ingresses once, instead of Run: Roles then returns those for what they reference.
func (c *Controller) ListIngresses(ctx context.Context) error {
	list, err := c.options.Client.NetworkingV1().Ingresses(c.options.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	objects := make([]any, len(list.Items))
	for i := range list.Items {
		objects[i] = &list.Items[i]
	}
	c.setIngresses(objects)
	return nil
}

// setIngresses replaces the set of Ingresses and their references. The UndeltaStore calls it on the goroutine of the
// reflector. It never waits for the network.
func (c *Controller) setIngresses(objects []any) {
	current := make(map[types.UID]*networkingv1.Ingress, len(objects))
	for _, object := range objects {
		if ingress, ok := object.(*networkingv1.Ingress); ok && c.selects(ingress) {
			current[ingress.UID] = ingress
		}
	}
	c.mu.Lock()
	before := c.current
	c.current = current
	c.mu.Unlock()

	// Add references before others are deleted: a Secret that an old and a new Ingress share keeps its stream.
	for uid, ingress := range current {
		if before[uid] != ingress {
			owner := manager.Owner{Kind: "Ingress", Namespace: ingress.Namespace, Name: ingress.Name, UID: uid}
			c.secrets.SetReferences(owner, secretsOf(ingress)...)
		}
	}
	for uid := range before {
		if current[uid] == nil {
			c.secrets.SetReferences(manager.Owner{UID: uid})
		}
	}
	if before == nil {
		close(c.listed)
	}
	c.requestBuild()
}

// selects reports whether the controller serves an Ingress.
func (c *Controller) selects(ingress *networkingv1.Ingress) bool {
	class := ingress.Spec.IngressClassName
	return c.options.IngressClass == "" || class != nil && *class == c.options.IngressClass
}

// byAge returns the Ingresses, oldest first.
func (c *Controller) byAge() []*networkingv1.Ingress {
	c.mu.Lock()
	current := c.current // never changed, only replaced
	c.mu.Unlock()
	return slices.SortedFunc(maps.Values(current), func(a, b *networkingv1.Ingress) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// secretsOf returns the keys of the Secrets that an Ingress references. The secretName is optional.
func secretsOf(ingress *networkingv1.Ingress) (keys []types.NamespacedName) {
	for _, tls := range ingress.Spec.TLS {
		if tls.SecretName != "" {
			keys = append(keys, types.NamespacedName{Namespace: ingress.Namespace, Name: tls.SecretName})
		}
	}
	return keys
}

// claim is what an Ingress says about a host. The Secret has no name if the Ingress names none.
type claim struct {
	host    string
	secret  types.NamespacedName
	ingress types.NamespacedName
	uid     types.UID // of the Ingress
}

// claimsOf returns the claims of an Ingress, in the order of its spec. A host may be in several.
func claimsOf(ingress *networkingv1.Ingress) (claims []claim) {
	for _, tls := range ingress.Spec.TLS {
		hosts := tls.Hosts
		if len(hosts) == 0 {
			for _, rule := range ingress.Spec.Rules {
				hosts = append(hosts, rule.Host)
			}
		}
		for _, host := range hosts {
			if host == "" {
				continue
			}
			claims = append(claims, claim{
				host:    strings.ToLower(host),
				secret:  types.NamespacedName{Namespace: ingress.Namespace, Name: tls.SecretName},
				ingress: types.NamespacedName{Namespace: ingress.Namespace, Name: ingress.Name},
				uid:     ingress.UID,
			})
		}
	}
	return claims
}
