// SPDX-License-Identifier: Apache-2.0

package referencegrants_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/refwatch/refwatch/examples/referencegrants"
	"github.com/refwatch/refwatch/manager"
)

// grantOf returns a grant in the namespace certs, with the given spec.
func grantOf(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	grant := &unstructured.Unstructured{}
	text := "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\nmetadata: {name: grant, namespace: certs}\nspec: " + spec
	if err := yaml.Unmarshal([]byte(text), &grant.Object); err != nil {
		t.Fatal(err)
	}
	return grant
}

// A grant permits references by all of its fields, and no other.
func TestPermits(t *testing.T) {
	const from = "from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: infra}]"
	tests := map[string]struct {
		spec string
		want bool
	}{
		"all Secrets":         {"{" + from + `, to: [{group: "", kind: Secret}]}`, true},
		"this Secret":         {"{" + from + `, to: [{group: "", kind: Secret, name: tls}]}`, true},
		"without a group":     {"{" + from + ", to: [{kind: Secret}]}", true},
		"one of several":      {"{" + from + ", to: [{kind: Service}, {kind: Secret, name: a}, {kind: Secret, name: tls}]}", true},
		"another Secret":      {"{" + from + ", to: [{kind: Secret, name: other}]}", false},
		"another kind":        {"{" + from + ", to: [{kind: ConfigMap}]}", false},
		"another group":       {"{" + from + ", to: [{group: example.com, kind: Secret}]}", false},
		"nothing":             {"{" + from + "}", false},
		"another namespace":   {"{from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: web}], to: [{kind: Secret}]}", false},
		"another owner":       {"{from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: infra}], to: [{kind: Secret}]}", false},
		"owner without group": {"{from: [{kind: Gateway, namespace: infra}], to: [{kind: Secret}]}", false},
		"from nobody":         {"{to: [{kind: Secret}]}", false},
		"not a grant":         {"{from: 1}", false},
	}
	gateway := manager.Owner{Kind: "Gateway.gateway.networking.k8s.io", Namespace: "infra", Name: "public"}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var grants referencegrants.Grants
			check := func(when, namespace string, want bool) {
				t.Helper()
				err := grants.Permits(gateway, types.NamespacedName{Namespace: namespace, Name: "tls"})
				if (err == nil) != want {
					t.Errorf("%s, in %s: got %v, want permitted %t", when, namespace, err, want)
				}
			}
			check("before the list", "certs", false)
			check("before the list", "infra", true) // its own namespace
			grants.Replace([]any{"garbage", grantOf(t, test.spec)})
			check("listed", "certs", test.want)
			check("listed", "other", false)
			check("listed", "infra", true)
			grants.Replace(nil)
			check("deleted", "certs", false)
		})
	}
}
