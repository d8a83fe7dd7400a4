// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	typedauthorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	clienttesting "k8s.io/client-go/testing"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/access"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

var (
	widgets        = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	clusterWidgets = widgets.GroupVersion().WithResource("clusterwidgets")
)

// permissions are what a user may do: "verb namespace/name", and "*" for any name.
type permissions map[string]bool

// authorize makes the server allow what the permissions hold.
func (p permissions) authorize(server *apiserver.Server) {
	server.Authorize(func(request apiserver.Request) bool {
		return p[request.Verb+" "+request.Namespace+"/*"] || request.Name != "" && p[request.Verb+" "+request.Namespace+"/"+request.Name]
	})
}

// keys returns the keys in texts like "namespace/name".
func keys(texts ...string) (keys []types.NamespacedName) {
	for _, text := range texts {
		namespace, name, _ := strings.Cut(text, "/")
		keys = append(keys, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return keys
}

// rule returns a rule for Secrets.
func rule(verbs, names string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: strings.Fields(names), Verbs: strings.Fields(verbs)}
}

// Check returns exactly what is denied, and sends no review that it does not need.
func TestCheck(t *testing.T) {
	tests := map[string]struct {
		permissions permissions
		verbs       []string
		keys        []types.NamespacedName
		want        access.Denials
		reviews     int
	}{
		"no keys": {},
		"one object, allowed": {
			permissions: permissions{"list a/x": true, "watch a/x": true},
			keys:        keys("a/x"), reviews: 2,
		},
		"one object, denied": {
			keys: keys("a/x"), want: access.Denials{{Namespace: "a", Rule: rule("list watch", "x")}}, reviews: 2,
		},
		"one verb": {
			permissions: permissions{"list a/x": true},
			keys:        keys("a/x"), want: access.Denials{{Namespace: "a", Rule: rule("watch", "x")}}, reviews: 2,
		},
		"get": {
			permissions: permissions{"list a/*": true, "watch a/*": true, "get a/y": true}, verbs: []string{"get"},
			keys: keys("a/x", "a/y"), want: access.Denials{{Namespace: "a", Rule: rule("get", "x")}}, reviews: 3,
		},
		"the whole namespace": {
			permissions: permissions{"list a/*": true, "watch a/*": true},
			keys:        keys("a/x", "a/y", "a/z"), reviews: 2,
		},
		"a verb of the whole namespace": {
			permissions: permissions{"list a/*": true, "watch a/y": true},
			keys:        keys("a/x", "a/y", "a/z"), want: access.Denials{{Namespace: "a", Rule: rule("watch", "x z")}}, reviews: 5,
		},
		"several namespaces and verbs": {
			permissions: permissions{"list b/x": true, "watch b/x": true, "list b/y": true, "list c/*": true, "watch c/*": true},
			keys:        keys("c/y", "b/z", "b/y", "b/x", "c/x", "a/x", "b/z"),
			want: access.Denials{
				{Namespace: "a", Rule: rule("list watch", "x")},
				{Namespace: "b", Rule: rule("watch", "y")},
				{Namespace: "b", Rule: rule("list watch", "z")},
			},
			reviews: 2 + 2 + 2 + 6,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apiserver.New(t, apiserver.Options{InMemory: true})
				test.permissions.authorize(server)
				reviews := server.Client().AuthorizationV1().SelfSubjectAccessReviews()
				objects := access.Secrets(test.keys...)
				objects.Verbs = test.verbs
				got, err := access.Check(t.Context(), reviews, objects)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				if got := len(server.Requests()); got != test.reviews {
					t.Errorf("reviews: got %d, want %d", got, test.reviews)
				}
			})
		})
	}
}

// With the Roles of the denials, a store can read all objects, and nothing is denied.
func TestDenialsAsRoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true})
		reviews := server.Client().AuthorizationV1().SelfSubjectAccessReviews()
		allowed := permissions{"list a/x": true}
		allowed.authorize(server)
		wanted := keys("a/x", "a/y", "b/x")
		cluster := access.Objects{Resource: clusterWidgets, ClusterScoped: true, Keys: keys("/one")}
		denied, err := access.Check(t.Context(), reviews, access.Secrets(wanted...), access.ConfigMaps(keys("b/x")...), cluster)
		if err != nil {
			t.Fatal(err)
		}
		roles, err1 := denied.Roles("gateway")
		clusterRoles, err2 := denied.ClusterRoles("gateway")
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if len(roles) != 2 || roles[0].Namespace != "a" || roles[1].Namespace != "b" || len(roles[1].Rules) != 2 || roles[1].Name != "gateway" || roles[1].Kind != "Role" {
			t.Errorf("Roles: got %+v, want one for each namespace, with both kinds in b", roles)
		}
		if len(clusterRoles) != 1 || clusterRoles[0].Rules[0].Resources[0] != "clusterwidgets" || clusterRoles[0].Kind != "ClusterRole" {
			t.Errorf("ClusterRoles: got %+v, want that of clusterwidgets", clusterRoles)
		}
		for _, role := range roles {
			for _, rule := range role.Rules {
				for _, verb := range rule.Verbs {
					for _, name := range rule.ResourceNames {
						allowed[verb+" "+role.Namespace+"/"+name] = true
					}
				}
			}
		}
		if denied, err := access.Check(t.Context(), reviews, access.Secrets(wanted...)); err != nil || denied != nil {
			t.Errorf("with the Roles: got %v and %v, want nothing denied", denied, err)
		}
		store, err := objectcache.NewWatchStore(resource.Secrets(server.Client()), objectcache.WatchOptions{AcquireOnGet: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
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
		if _, err := denied.Roles(""); !errors.Is(err, objectcache.ErrInvalidName) {
			t.Errorf("without a name: got %v, want ErrInvalidName", err)
		}
		if _, err := denied.ClusterRoles(""); !errors.Is(err, objectcache.ErrInvalidName) {
			t.Errorf("without a name: got %v, want ErrInvalidName", err)
		}
	})
}

// reviewer returns a client whose server answers each review with answer.
func reviewer(answer func(authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, error)) typedauthorizationv1.SelfSubjectAccessReviewInterface {
	client := &fake.Clientset{}
	client.AddReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		status, err := answer(*review.Spec.ResourceAttributes)
		review.Status = status
		return true, review, err
	})
	return client.AuthorizationV1().SelfSubjectAccessReviews()
}

// The reason of the server is passed on. Objects with the same reason share a rule.
func TestCheckReasons(t *testing.T) {
	reviews := reviewer(func(a authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, error) {
		want := authorizationv1.ResourceAttributes{Group: "example.com", Version: "v1", Resource: "widgets", Namespace: "a", Name: a.Name, Verb: a.Verb}
		if a != want {
			t.Errorf("attributes: got %+v, want %+v", a, want)
		}
		switch a.Name {
		case "x", "z":
			return authorizationv1.SubjectAccessReviewStatus{Reason: "no relationship found"}, nil
		case "y":
			return authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: a.Verb + "ing is forbidden", EvaluationError: "a webhook is down"}, nil
		}
		return authorizationv1.SubjectAccessReviewStatus{}, nil
	})
	got, err := access.Check(t.Context(), reviews, access.Objects{Resource: widgets, Keys: keys("a/x", "a/y", "a/z")})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, denied := range got {
		lines = append(lines, denied.String())
	}
	want := []string{
		`list, watch of widgets x, z is not allowed in the namespace "a": no relationship found`,
		`list, watch of widgets y is not allowed in the namespace "a": listing is forbidden: a webhook is down; watching is forbidden: a webhook is down`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// At most eight reviews are under way at a time. The first error ends the check.
func TestCheckIsBounded(t *testing.T) {
	var all []types.NamespacedName
	for i := range 100 {
		all = append(all, types.NamespacedName{Namespace: "a", Name: fmt.Sprint("x", i)})
	}
	tests := map[string]struct {
		fail int32 // which review fails; 0 for none
		most int32 // reviews at most
	}{
		"all answered": {0, 202}, "an error": {50, 60},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var running, peak, asked atomic.Int32
				broken := errors.New("broken")
				var mu sync.Mutex
				reviews := blocking{reviewer(func(authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, error) {
					if asked.Add(1) == test.fail {
						return authorizationv1.SubjectAccessReviewStatus{}, broken
					}
					return authorizationv1.SubjectAccessReviewStatus{}, nil
				}), func() {
					mu.Lock()
					defer mu.Unlock()
					peak.Store(max(peak.Load(), running.Add(1)))
				}, func() { running.Add(-1) }}
				denied, err := access.Check(t.Context(), reviews, access.Secrets(all...))
				if test.fail == 0 && (err != nil || len(denied) != 1 || len(denied[0].Rule.ResourceNames) != 100) {
					t.Errorf("got %d and %v, want one rule with all names", len(denied), err)
				}
				if test.fail > 0 && (!errors.Is(err, broken) || denied != nil || !strings.Contains(err.Error(), "check access to secrets: SelfSubjectAccessReview: broken")) {
					t.Errorf("got %v and %v, want the error", denied, err)
				}
				if got := peak.Load(); got != 8 {
					t.Errorf("reviews at a time: got %d, want 8", got)
				}
				if got := asked.Load(); got > test.most {
					t.Errorf("reviews: got %d, want at most %d", got, test.most)
				}
			})
		})
	}
}

// blocking is a client whose reviews take until all others that can begin have begun.
type blocking struct {
	typedauthorizationv1.SelfSubjectAccessReviewInterface

	begin, end func()
}

func (b blocking) Create(ctx context.Context, review *authorizationv1.SelfSubjectAccessReview, options metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error) {
	b.begin()
	defer b.end()
	time.Sleep(time.Second)
	return b.SelfSubjectAccessReviewInterface.Create(ctx, review, options)
}

// What cannot be asked is an error that says why.
func TestCheckErrors(t *testing.T) {
	secrets := access.Secrets().Resource
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var none context.Context
	var noClient typedauthorizationv1.SelfSubjectAccessReviewInterface
	allowed := reviewer(func(authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}, nil
	})
	refused := reviewer(func(authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{}, apierrors.NewForbidden(authorizationv1.Resource("selfsubjectaccessreviews"), "", errors.New("no"))
	})
	isText := func(text string) func(error) bool {
		return func(err error) bool { return err != nil && strings.Contains(err.Error(), text) }
	}
	is := func(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
	tests := map[string]struct {
		resource schema.GroupVersionResource
		ctx      context.Context
		reviews  typedauthorizationv1.SelfSubjectAccessReviewInterface
		key      string
		want     func(error) bool
	}{
		"ended context":   {secrets, ended, allowed, "a/x", is(context.Canceled)},
		"no context":      {secrets, none, allowed, "a/x", is(objectcache.ErrNilContext)},
		"no client":       {secrets, t.Context(), noClient, "a/x", isText("the client is nil: pass client.AuthorizationV1()")},
		"zero resource":   {schema.GroupVersionResource{}, t.Context(), allowed, "a/x", isText("is no resource")},
		"refused":         {secrets, t.Context(), refused, "a/x", apierrors.IsForbidden},
		"refused, advice": {secrets, t.Context(), refused, "a/x", isText("system:basic-user")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			denied, err := access.Check(test.ctx, test.reviews, access.Objects{Resource: test.resource, Keys: keys(test.key)})
			if !test.want(err) || denied != nil {
				t.Errorf("Check: got %v and %v", denied, err)
			}
			whole, err := access.AllowedNamespace(test.ctx, test.reviews, test.resource, keys(test.key)[0].Namespace)
			if !test.want(err) || whole {
				t.Errorf("AllowedNamespace: got %v and %v", whole, err)
			}
		})
	}
}

// Nothing is asked about objects that cannot exist: they need no permission.
func TestCheckObjectsThatCannotExist(t *testing.T) {
	reviews := reviewer(func(asked authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, error) {
		if asked.Namespace != "a" || asked.Name == "X" {
			t.Errorf("got a review of %+v", asked)
		}
		return authorizationv1.SubjectAccessReviewStatus{}, nil
	})
	denied, err := access.Check(t.Context(), reviews, access.Secrets(keys("a/x", "a/X", "A/x", "/x", "a/")...))
	if err != nil || len(denied) != 1 || !slices.Equal(denied[0].Rule.ResourceNames, []string{"x"}) {
		t.Errorf("Check: got %v and %v, want what x needs", denied, err)
	}
	if _, err := access.AllowedNamespace(t.Context(), reviews, access.Secrets().Resource, "A"); !errors.Is(err, objectcache.ErrInvalidName) {
		t.Errorf("AllowedNamespace: got %v, want ErrInvalidName", err)
	}
}

// AllowedNamespace needs list and watch of all names.
func TestAllowedNamespace(t *testing.T) {
	tests := map[string]struct {
		permissions permissions
		want        bool
	}{
		"all":      {permissions{"list a/*": true, "watch a/*": true}, true},
		"one verb": {permissions{"list a/*": true}, false},
		"watch":    {permissions{"watch a/*": true}, false},
		"one name": {permissions{"list a/x": true, "watch a/x": true}, false},
		"another":  {permissions{"list b/*": true, "watch b/*": true}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apiserver.New(t, apiserver.Options{InMemory: true})
				test.permissions.authorize(server)
				got, err := access.AllowedNamespace(t.Context(), server.Client().AuthorizationV1().SelfSubjectAccessReviews(), access.Secrets().Resource, "a")
				if err != nil || got != test.want {
					t.Errorf("got %v and %v, want %v", got, err, test.want)
				}
			})
		})
	}
}
