// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/refwatch/refwatch/objectcache"
)

func TestRoles(t *testing.T) {
	role := func(namespace string, names ...string) rbacv1.Role {
		return rbacv1.Role{
			TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gateway"},
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: names, Verbs: []string{"list", "watch"},
			}},
		}
	}
	tests := map[string]struct {
		keys []types.NamespacedName
		want []rbacv1.Role
		err  error
	}{
		"no keys": {},
		"one key": {keys: []types.NamespacedName{{Namespace: "a", Name: "x"}}, want: []rbacv1.Role{role("a", "x")}},
		"sorted and unique": {
			keys: []types.NamespacedName{
				{Namespace: "b", Name: "z"}, {Namespace: "a", Name: "y"}, {Namespace: "a", Name: "x"}, {Namespace: "a", Name: "y"},
			},
			want: []rbacv1.Role{role("a", "x", "y"), role("b", "z")},
		},
		"no name":  {keys: []types.NamespacedName{{Namespace: "a"}}, err: objectcache.ErrInvalidName},
		"wildcard": {keys: []types.NamespacedName{{Namespace: "a", Name: "*"}}, err: objectcache.ErrInvalidName},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := objectcache.Secrets(nil).Roles("gateway", test.keys...)
			if !errors.Is(err, test.err) {
				t.Errorf("error: got %v, want %v", err, test.err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("roles, -want +got:\n%s", diff)
			}
		})
	}
}

// Roles needs no client and works for any kind. It returns an error for an invalid
// resource.
func TestRolesOfAnyKind(t *testing.T) {
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	roles, err := objectcache.Dynamic(nil, widgets).Roles("gateway", types.NamespacedName{Namespace: "a", Name: "x:y"})
	if err != nil {
		t.Fatal(err)
	}
	want := []rbacv1.PolicyRule{{
		APIGroups: []string{"example.com"}, Resources: []string{"widgets"}, ResourceNames: []string{"x:y"}, Verbs: []string{"list", "watch"},
	}}
	if diff := cmp.Diff(want, roles[0].Rules); diff != "" {
		t.Errorf("rules, -want +got:\n%s", diff)
	}
	if _, err := objectcache.Secrets(nil).Roles(""); !errors.Is(err, objectcache.ErrInvalidName) {
		t.Errorf("Roles without a name: got %v, want ErrInvalidName", err)
	}
	widgets.Resource = "Widget"
	if _, err := objectcache.Metadata(nil, widgets).Roles("gateway"); err == nil {
		t.Error("a kind for a resource: got no error, want one")
	}
	if _, err := (objectcache.Resource[*corev1.Secret]{}).Roles("gateway"); err == nil {
		t.Error("zero Resource: got no error, want one")
	}
}

// The example prints the Role that a gateway needs for its certificates.
func ExampleResource_Roles() {
	// Roles needs no client.
	roles, err := objectcache.Secrets(nil).Roles("gateway-certificates",
		types.NamespacedName{Namespace: "shop", Name: "tls"},
		types.NamespacedName{Namespace: "shop", Name: "tls-old"},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := yaml.Marshal(roles[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(text))
	// Output:
	// apiVersion: rbac.authorization.k8s.io/v1
	// kind: Role
	// metadata:
	//   name: gateway-certificates
	//   namespace: shop
	// rules:
	// - apiGroups:
	//   - ""
	//   resourceNames:
	//   - tls
	//   - tls-old
	//   resources:
	//   - secrets
	//   verbs:
	//   - list
	//   - watch
}
