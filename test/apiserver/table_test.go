// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func fullIngress(meta metav1.ObjectMeta) *networkingv1.Ingress {
	ingress := &networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{
		IngressClassName: new("nginx"), TLS: []networkingv1.IngressTLS{{SecretName: "tls"}},
	}}
	for _, host := range []string{"a", "b", "c", "d"} {
		ingress.Spec.Rules = append(ingress.Spec.Rules, networkingv1.IngressRule{Host: host})
	}
	ingress.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{Hostname: "lb.test"}, {IP: "10.0.0.1"}}
	return ingress
}

func TestTableCells(t *testing.T) {
	now := time.Now()
	old := metav1.NewTime(now.Add(-90 * time.Minute))
	meta := metav1.ObjectMeta{Name: "x", CreationTimestamp: old}
	ready := func(status corev1.ConditionStatus) corev1.NodeStatus {
		return corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeDiskPressure}, {Type: corev1.NodeReady, Status: status}},
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1.36.3"},
		}
	}
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := newPod("x")
		p.CreationTimestamp, p.Status.Phase = old, corev1.PodRunning
		change(p)
		return p
	}
	for name, test := range map[string]struct {
		resource *resource
		object   object
		columns  string
		want     string
	}{
		"secret": {
			secrets, &corev1.Secret{ObjectMeta: meta, Type: "Opaque", Data: map[string][]byte{"a": nil, "b": nil}},
			"Name Type Data Age", "[x Opaque 2 90m]",
		},
		"config map": {
			configMaps, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": ""}, BinaryData: map[string][]byte{"b": nil}},
			"Name Data Age", "[x 2 90m]",
		},
		"service account": {serviceAccounts, &corev1.ServiceAccount{ObjectMeta: meta}, "Name Age", "[x 90m]"},
		"no age":          {serviceAccounts, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, "Name Age", "[x <unknown>]"},
		"namespace":       {namespaces, &corev1.Namespace{ObjectMeta: meta, Status: corev1.NamespaceStatus{Phase: "Active"}}, "Name Status Age", "[x Active 90m]"},
		"node":            {nodes, &corev1.Node{ObjectMeta: meta}, "Name Status Version Age", "[x Unknown  90m]"},
		"ready node":      {nodes, &corev1.Node{ObjectMeta: meta, Status: ready(corev1.ConditionTrue)}, "Name Status Version Age", "[x Ready v1.36.3 90m]"},
		"cordoned node": {
			nodes, &corev1.Node{ObjectMeta: meta, Status: ready(corev1.ConditionFalse), Spec: corev1.NodeSpec{Unschedulable: true}},
			"Name Status Version Age", "[x NotReady,SchedulingDisabled v1.36.3 90m]",
		},
		"lease":        {leases, &coordinationv1.Lease{ObjectMeta: meta, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("a")}}, "Name Holder Age", "[x a 90m]"},
		"ingress":      {ingresses, &networkingv1.Ingress{ObjectMeta: meta}, "Name Class Hosts Address Ports Age", "[x <none> *  80 90m]"},
		"full ingress": {ingresses, fullIngress(meta), "Name Class Hosts Address Ports Age", "[x nginx a,b,c + 1 more... 10.0.0.1,lb.test 80, 443 90m]"},
		"pod": {
			pods, pod(func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Ready: true, RestartCount: 3}}
			}),
			"Name Ready Status Restarts Age", "[x 1/1 Running 3 90m]",
		},
		"evicted pod": {pods, pod(func(p *corev1.Pod) { p.Status.Reason = "Evicted" }), "Name Ready Status Restarts Age", "[x 0/1 Evicted 0 90m]"},
		"deleted pod": {pods, pod(func(p *corev1.Pod) { p.DeletionTimestamp = &old }), "Name Ready Status Restarts Age", "[x 0/1 Terminating 0 90m]"},
	} {
		t.Run(name, func(t *testing.T) {
			columns := []string{"Name"}
			for _, c := range test.resource.columns {
				columns = append(columns, c.Name)
			}
			if got := strings.Join(append(columns, "Age"), " "); got != test.columns {
				t.Errorf("got columns %s, want %s", got, test.columns)
			}
			row := test.resource.row(test.object, metav1.IncludeNone, now)
			if got := fmt.Sprint(row.Cells); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestTables(t *testing.T) {
	f := newFixture(t, Options{})
	f.createNumbered(3)
	for name, test := range map[string]struct {
		path   string
		rows   int
		object string // kind of the objects in the rows
	}{
		"list":         {"/api/v1/namespaces/default/secrets", 3, "PartialObjectMetadata"},
		"page":         {"/api/v1/namespaces/default/secrets?limit=2", 2, "PartialObjectMetadata"},
		"one":          {"/api/v1/namespaces/default/secrets/s00", 1, "PartialObjectMetadata"},
		"with objects": {"/api/v1/namespaces/default/secrets?includeObject=Object", 3, "Secret"},
		"without":      {"/api/v1/namespaces/default/secrets?includeObject=None", 3, ""},
		"empty":        {"/api/v1/pods", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.do(http.MethodGet, test.path, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
			var table struct {
				metav1.TypeMeta
				metav1.ListMeta `json:"metadata"`
				Columns         []metav1.TableColumnDefinition `json:"columnDefinitions"`
				Rows            []struct {
					Cells  []any
					Object *metav1.PartialObjectMetadata
				}
			}
			if err := json.Unmarshal(got.body, &table); err != nil {
				t.Fatalf("%v: %s", err, got.body)
			}
			if table.Kind != "Table" || table.ResourceVersion == "" || len(table.Rows) != test.rows || table.Rows == nil {
				t.Errorf("got %s, want a table of %d rows with a version", got.body, test.rows)
			}
			if paged := table.Continue != ""; paged != (name == "page") {
				t.Errorf("got token %q, want one for a page only", table.Continue)
			}
			for _, row := range table.Rows {
				if len(row.Cells) != len(table.Columns) {
					t.Errorf("got %d cells, want one for each of %d columns", len(row.Cells), len(table.Columns))
				}
				if kind := ""; row.Object != nil && row.Object.Kind != test.object || row.Object == nil && test.object != kind {
					t.Errorf("got object %v, want kind %q", row.Object, test.object)
				}
			}
		})
	}
}
