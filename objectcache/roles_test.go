// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
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
		"none": {},
		"one":  {keys: []types.NamespacedName{{Namespace: "a", Name: "x"}}, want: []rbacv1.Role{role("a", "x")}},
		"in order, each once": {
			keys: []types.NamespacedName{
				{Namespace: "b", Name: "z"}, {Namespace: "a", Name: "y"}, {Namespace: "a", Name: "x"}, {Namespace: "a", Name: "y"},
			},
			want: []rbacv1.Role{role("a", "x", "y"), role("b", "z")},
		},
		"no name":       {keys: []types.NamespacedName{{Namespace: "a"}}, err: objectcache.ErrInvalidName},
		"all of a kind": {keys: []types.NamespacedName{{Namespace: "a", Name: "*"}}, err: objectcache.ErrInvalidName},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			resource := objectcache.Secrets(fake.NewClientset())
			got, err := resource.Roles("gateway", test.keys...)
			if !errors.Is(err, test.err) {
				t.Errorf("error: got %v, want %v", err, test.err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("roles, -want +got:\n%s", diff)
			}
		})
	}
}

// The Role that a gateway needs for its certificates.
func ExampleResource_Roles() {
	secrets := objectcache.Secrets(fake.NewClientset())
	roles, err := secrets.Roles("gateway-certificates",
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
