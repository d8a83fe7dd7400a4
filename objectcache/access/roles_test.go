// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/access"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// keys returns the keys in texts like "namespace/name".
func keys(texts ...string) (keys []types.NamespacedName) {
	for _, text := range texts {
		namespace, name, _ := strings.Cut(text, "/")
		keys = append(keys, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return keys
}

func TestRoles(t *testing.T) {
	role := func(namespace string, names ...string) rbacv1.Role {
		return rbacv1.Role{
			TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gateway"},
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: names, Verbs: []string{"get", "list", "watch"},
			}},
		}
	}
	tests := map[string]struct {
		keys []types.NamespacedName
		want []rbacv1.Role
	}{
		"no keys": {},
		"one key": {keys: []types.NamespacedName{{Namespace: "a", Name: "x"}}, want: []rbacv1.Role{role("a", "x")}},
		"sorted and unique": {
			keys: []types.NamespacedName{
				{Namespace: "b", Name: "z"}, {Namespace: "a", Name: "y"}, {Namespace: "a", Name: "x"}, {Namespace: "a", Name: "y"},
			},
			want: []rbacv1.Role{role("a", "x", "y"), role("b", "z")},
		},
		"no such names": {keys: keys("a/x", "a/X", "A/x", "/x", "a/", "a/*", "b/y"), want: []rbacv1.Role{role("a", "x"), role("b", "y")}},
		"wildcard":      {keys: keys("a/*")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := access.Roles("gateway", access.Secrets(test.keys...))
			if err != nil {
				t.Errorf("error: got %v, want none", err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("roles, -want +got:\n%s", diff)
			}
		})
	}
}

// Roles works for any kind. Several resources are rules of one Role.
func TestRolesOfAnyKind(t *testing.T) {
	key := types.NamespacedName{Namespace: "a", Name: "x:y"}
	roles, err := access.Roles("gateway", access.Objects{Resource: widgets, Keys: []types.NamespacedName{key}, Verbs: []string{"get"}},
		access.ConfigMaps(types.NamespacedName{Namespace: "a", Name: "z"}))
	if err != nil || len(roles) != 1 {
		t.Fatalf("got %d Roles and %v, want one", len(roles), err)
	}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{"example.com"}, Resources: []string{"widgets"}, ResourceNames: []string{"x:y"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"z"}, Verbs: []string{"get", "list", "watch"}},
	}
	if diff := cmp.Diff(want, roles[0].Rules); diff != "" {
		t.Errorf("rules, -want +got:\n%s", diff)
	}
	if _, err := access.Roles(""); !errors.Is(err, objectcache.ErrInvalidName) {
		t.Errorf("Roles without a name: got %v, want ErrInvalidName", err)
	}
	for _, resource := range []schema.GroupVersionResource{{}, {Version: "v1", Resource: "Widget"}, {Resource: "widgets"}} {
		if _, err := access.Roles("gateway", access.Objects{Resource: resource}); err == nil {
			t.Errorf("%v: got no error, want one", resource)
		}
	}
}

// The permissions of a cluster-scoped kind are ClusterRoles, those of others are Roles.
func TestClusterRoles(t *testing.T) {
	nodesOf := func(keys ...types.NamespacedName) access.Objects {
		return access.Objects{Resource: corev1.SchemeGroupVersion.WithResource("nodes"), ClusterScoped: true, Keys: keys}
	}
	got, err := access.ClusterRoles("agent", nodesOf(keys("/b", "/a", "/b")...))
	if err != nil {
		t.Fatal(err)
	}
	want := []rbacv1.ClusterRole{{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"nodes"}, ResourceNames: []string{"a", "b"}, Verbs: []string{"get", "list", "watch"},
		}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, key := range [][]types.NamespacedName{nil, keys("shop/tls", "/")} { // no node has those
		if got, err := access.ClusterRoles("agent", nodesOf(key...)); err != nil || got != nil {
			t.Errorf("%v: got %v and %v, want none", key, got, err)
		}
	}
	_, rolesErr := access.Roles("agent", nodesOf(keys("/a")...))
	_, clusterErr := access.ClusterRoles("agent", access.Secrets(keys("shop/tls")...))
	_, nameErr := access.ClusterRoles("")
	for want, err := range map[string]error{
		"call ClusterRoles": rolesErr, "call Roles": clusterErr, "may not be empty": nameErr,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

// The verbs are those of the requests that a store sends: with a selector, and without a REST client, none is a get.
func TestRolesOfAStore(t *testing.T) {
	config := &rest.Config{Host: "https://nowhere.invalid"}
	path := corev1.SchemeGroupVersion.WithResource("nodes")
	nodes := resource.FromConfig[*corev1.Node, *corev1.NodeList](config, path).ClusterScoped()
	selected := nodes.WithSelector(func(string) resource.Selector { return resource.Selector{Label: labels.Everything()} })
	source := resource.FromSource(struct{ resource.Source[*corev1.Node] }{}, path).ClusterScoped()
	for name, test := range map[string]struct {
		resource resource.Resource[*corev1.Node]
		options  objectcache.StoreOptions
		want     string
	}{
		"watch":                 {nodes, objectcache.WatchOptions{}, "get list watch"},
		"watch, a selector":     {selected, objectcache.WatchOptions{}, "list watch"},
		"watch, no REST client": {source, objectcache.WatchOptions{}, "list watch"},
		"reads after a TTL":     {nodes, objectcache.TTLOptions{}, "get"},
		"a read for each Get":   {nodes, objectcache.DirectOptions{}, "get"},
	} {
		store, err := objectcache.NewStore(test.resource, test.options)
		if err != nil {
			t.Fatal(err)
		}
		got, err := access.ClusterRoles("agent", access.Of(store, keys("/a")...))
		if err != nil || len(got) != 1 || !slices.Equal(got[0].Rules[0].Verbs, strings.Fields(test.want)) || got[0].Rules[0].Resources[0] != "nodes" {
			t.Errorf("%s: got %+v and %v, want one with %s of nodes", name, got, err, test.want)
		}
	}
}

// With the Roles for it, a store can read the objects, and no others.
func TestRolesAreEnough(t *testing.T) { testRolesAreEnough(t, nil) }

// The verbs of Objects can leave out get. The Roles are enough then, too.
func TestVerbsLeaveOutGet(t *testing.T) { testRolesAreEnough(t, []string{"list", "watch"}) }

// testRolesAreEnough tests Roles with these verbs, nil for those of the store.
func testRolesAreEnough(t *testing.T, verbs []string) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true})
		store, err := objectcache.NewWatchStore(resource.Secrets(server.Client()), objectcache.WatchOptions{AcquireOnGet: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		wanted := keys("a/x", "a/y", "b/x")
		objects := access.Of(store, wanted...)
		if verbs != nil {
			objects.Verbs = verbs
		}
		roles, err := access.Roles("gateway", objects)
		if err != nil {
			t.Fatal(err)
		}
		for _, role := range roles {
			if got := role.Rules[0].Verbs; slices.Contains(got, "get") != (verbs == nil) || verbs != nil && !slices.Equal(got, verbs) {
				t.Errorf("verbs: got %v, want %v, or those of the store", got, verbs)
			}
		}
		server.Authorize(func(request apiserver.Request) bool {
			return slices.ContainsFunc(roles, func(role rbacv1.Role) bool {
				rule := role.Rules[0]
				return role.Namespace == request.Namespace && slices.Contains(rule.Verbs, request.Verb) && slices.Contains(rule.ResourceNames, request.Name)
			})
		})
		ctx, stop := context.WithCancel(t.Context())
		running := make(chan error)
		go func() { running <- store.Run(ctx) }()
		defer func() {
			stop()
			if err := <-running; err != nil {
				t.Error(err)
			}
		}()
		for _, key := range wanted {
			if _, err := store.Get(t.Context(), key.Namespace, key.Name); !apierrors.IsNotFound(err) {
				t.Errorf("Get of %s: got %v, want NotFound, and not Forbidden", key, err)
			}
		}
		if _, err := store.Get(t.Context(), "b", "y"); !apierrors.IsForbidden(err) {
			t.Errorf("Get of another: got %v, want Forbidden", err)
		}
	})
}

// The example prints the Role that a gateway needs for its certificates.
func ExampleRoles() {
	roles, err := access.Roles("gateway-certificates", access.Secrets(
		types.NamespacedName{Namespace: "shop", Name: "tls"},
		types.NamespacedName{Namespace: "shop", Name: "tls-old"},
	))
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
	//   - get
	//   - list
	//   - watch
}
