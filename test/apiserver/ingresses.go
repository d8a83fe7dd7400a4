// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var ingresses = &resource{
	groupVersion: networkingv1.SchemeGroupVersion,
	name:         "ingresses", singular: "ingress", kind: "Ingress", prototype: &networkingv1.Ingress{},
	shortNames: []string{"ing"}, subresources: []string{"status"}, namespaced: true,
	prepare: prepareIngress,
	columns: []metav1.TableColumnDefinition{column("Class"), column("Hosts"), column("Address"), column("Ports")},
	cells:   ingressCells,
}

// prepareIngress keeps the old spec on an update of the status, and the old status on any other update. It raises the
// generation when the spec changes.
func prepareIngress(obj, old object, subresource string) {
	ingress := obj.(*networkingv1.Ingress)
	if old == nil {
		ingress.Generation = 1
		ingress.Status = networkingv1.IngressStatus{}
		return
	}
	before := old.(*networkingv1.Ingress)
	if subresource == "status" {
		ingress.Spec = *before.Spec.DeepCopy()
		return
	}
	ingress.Status = *before.Status.DeepCopy()
	if !equality.Semantic.DeepEqual(ingress.Spec, before.Spec) {
		ingress.Generation = before.Generation + 1
	}
}

// maxHosts is the maximum number of hosts in a table, as in kube-apiserver.
const maxHosts = 3

func ingressCells(obj object) []any {
	ingress := obj.(*networkingv1.Ingress)
	class, ports := "<none>", "80"
	if ingress.Spec.IngressClassName != nil {
		class = *ingress.Spec.IngressClassName
	}
	if len(ingress.Spec.TLS) > 0 {
		ports = "80, 443"
	}
	var hosts, addresses []string
	for _, rule := range ingress.Spec.Rules {
		if rule.Host != "" {
			hosts = append(hosts, rule.Host)
		}
	}
	for _, point := range ingress.Status.LoadBalancer.Ingress {
		if address := cmp.Or(point.IP, point.Hostname); address != "" {
			addresses = append(addresses, address)
		}
	}
	slices.Sort(addresses)
	host := strings.Join(hosts, ",")
	if len(hosts) > maxHosts {
		host = fmt.Sprintf("%s + %d more...", strings.Join(hosts[:maxHosts], ","), len(hosts)-maxHosts)
	}
	return []any{class, cmp.Or(host, "*"), strings.Join(slices.Compact(addresses), ","), ports}
}
