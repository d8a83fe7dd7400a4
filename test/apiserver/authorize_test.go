// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// allowsNames reports whether a rule with verbs and resourceNames allows the request.
func allowsNames(r Request, verbs []string, names ...string) bool {
	return slices.Contains(verbs, r.Verb) && slices.Contains(names, r.Name)
}

// TestAuthorize sends requests and asks for a review of each. Both must have the expected answer, and the text of a
// refusal must be that of kube-apiserver's RBAC authorizer.
func TestAuthorize(t *testing.T) {
	f := newFixture(t, Options{CustomResources: customResources})
	f.createSecret(newSecret("db"))
	f.Authorize(func(r Request) bool {
		switch r.Group + "/" + r.Resource {
		case "/secrets":
			return r.Namespace == "default" && allowsNames(r, []string{"get", "list", "watch"}, "db")
		case "example.com/widgets":
			return r.Verb == "list"
		default:
			return false
		}
	})
	for name, test := range map[string]struct {
		method, path string
		attributes   authorizationv1.ResourceAttributes
		want         string // empty: allowed
	}{
		"get": {
			http.MethodGet, "/api/v1/namespaces/default/secrets/db",
			authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: "default", Name: "db"}, "",
		},
		"list of one name": {
			http.MethodGet, "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Ddb",
			authorizationv1.ResourceAttributes{Verb: "list", Resource: "secrets", Namespace: "default", Name: "db"}, "",
		},
		"watch of one name": {
			http.MethodGet, "/api/v1/namespaces/default/secrets?watch=1&timeoutSeconds=1&fieldSelector=type%3DOpaque,metadata.name%3Ddb",
			authorizationv1.ResourceAttributes{Verb: "watch", Resource: "secrets", Namespace: "default", Name: "db", Version: "v1"}, "",
		},
		"list of another name": {
			http.MethodGet, "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dother",
			authorizationv1.ResourceAttributes{Verb: "list", Resource: "secrets", Namespace: "default", Name: "other"},
			`secrets "other" is forbidden: User "admin" cannot list resource "secrets" in API group "" in the namespace "default"`,
		},
		"list of all names": {
			http.MethodGet, "/api/v1/namespaces/default/secrets",
			authorizationv1.ResourceAttributes{Verb: "list", Resource: "secrets", Namespace: "default"},
			`secrets is forbidden: User "admin" cannot list resource "secrets" in API group "" in the namespace "default"`,
		},
		"watch in all namespaces": {
			http.MethodGet, "/api/v1/secrets?watch=1&fieldSelector=metadata.name%3Ddb",
			authorizationv1.ResourceAttributes{Verb: "watch", Resource: "secrets", Name: "db"},
			`secrets "db" is forbidden: User "admin" cannot watch resource "secrets" in API group "" at the cluster scope`,
		},
		"node": {
			http.MethodGet, "/api/v1/nodes/n",
			authorizationv1.ResourceAttributes{Verb: "get", Resource: "nodes", Name: "n"},
			`nodes "n" is forbidden: User "admin" cannot get resource "nodes" in API group "" at the cluster scope`,
		},
		"token": {
			http.MethodPost, "/api/v1/namespaces/default/serviceaccounts/a/token",
			authorizationv1.ResourceAttributes{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: "default", Name: "a"},
			`serviceaccounts "a" is forbidden: User "admin" cannot create resource "serviceaccounts/token" in API group "" in the namespace "default"`,
		},
		"custom resource": {
			http.MethodGet, widgetsPath,
			authorizationv1.ResourceAttributes{Verb: "list", Group: "example.com", Resource: "widgets", Namespace: "default"}, "",
		},
		"same name in another group": {
			http.MethodGet, "/apis/other.example.com/v1alpha1/widgets",
			authorizationv1.ResourceAttributes{Verb: "list", Group: "other.example.com", Version: "v1alpha1", Resource: "widgets"},
			`widgets.other.example.com is forbidden: User "admin" cannot list resource "widgets" in API group "other.example.com" at the cluster scope`,
		},
		"not served": {
			http.MethodGet, "/apis/apps/v1/deployments",
			authorizationv1.ResourceAttributes{Verb: "list", Group: "apps", Resource: "deployments"},
			`deployments.apps is forbidden: User "admin" cannot list resource "deployments" in API group "apps" at the cluster scope`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.do(test.method, test.path, "")
			if test.want == "" && got.code != 200 {
				t.Errorf("request: got %d %s, want 200", got.code, got.body)
			}
			if test.want != "" {
				status := got.status(t)
				if got.code != 403 || status.Reason != metav1.StatusReasonForbidden || status.Message != test.want {
					t.Errorf("request: got %d %s, want 403 %s", got.code, got.body, test.want)
				}
				if status.Details.Kind != test.attributes.Resource || status.Details.Group != test.attributes.Group || status.Details.Name != test.attributes.Name {
					t.Errorf("request: got details %+v, want group, resource and name of the request", status.Details)
				}
			}
			f.checkReview(authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &test.attributes}, test.want == "")
		})
	}
}

// checkReview asks for a review in JSON and in protobuf.
func (f *fixture) checkReview(spec authorizationv1.SelfSubjectAccessReviewSpec, want bool) {
	f.t.Helper()
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		config := f.Config()
		config.ContentType, config.QPS = contentType, -1
		reviews := newClientFor(f.t, config).AuthorizationV1().SelfSubjectAccessReviews()
		review, err := reviews.Create(f.t.Context(), &authorizationv1.SelfSubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil || review.Status.Allowed != want || review.Status.Denied {
			f.t.Errorf("review in %s: got %v, %v, want allowed %t", contentType, review, err, want)
		}
	}
}

// TestAuthorizeNothing checks what every user may do, and that a nil function allows everything again.
func TestAuthorizeNothing(t *testing.T) {
	f := newFixture(t, Options{})
	secrets := authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "secrets"},
	}
	health := authorizationv1.SelfSubjectAccessReviewSpec{
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/healthz"},
	}
	f.checkReview(secrets, true)
	version := f.ResourceVersion()
	f.Authorize(func(Request) bool { return false })
	for _, path := range []string{"/healthz", "/version", "/api", "/apis", "/api/v1", "/apis/networking.k8s.io/v1", "/openapi/v3"} {
		if got := f.do(http.MethodGet, path, ""); got.code != 200 {
			t.Errorf("%s: got %d, want 200", path, got.code)
		}
	}
	f.checkReview(secrets, false)
	f.checkReview(health, true)
	if now := f.ResourceVersion(); now != version {
		t.Errorf("got version %s changed to %s, want reviews not stored", version, now)
	}
	if _, err := f.client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want Forbidden", err)
	}
	if got := f.do(http.MethodGet, "/api/v1/secrets", "", "Authorization", "Bearer wrong"); got.code != 401 {
		t.Errorf("wrong token: got %d, want 401 before 403", got.code)
	}
	f.Authorize(nil)
	f.checkReview(secrets, true)
	if _, err := f.client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

func TestReviewErrors(t *testing.T) {
	f := newFixture(t, Options{})
	const path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	for name, test := range map[string]struct {
		method, body string
		code         int
		want         string
	}{
		"no attributes": {
			http.MethodPost, `{}`, 422, `.authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: ` +
				"exactly one of nonResourceAttributes or resourceAttributes must be specified",
		},
		"both":         {http.MethodPost, `{"spec":{"resourceAttributes":{},"nonResourceAttributes":{}}}`, 422, "cannot be specified in combination with resourceAttributes"},
		"with a name":  {http.MethodPost, `{"metadata":{"name":"x"},"spec":{"resourceAttributes":{}}}`, 422, "must be empty"},
		"another kind": {http.MethodPost, `{"apiVersion":"v1","kind":"Secret"}`, 400, "cannot be handled as a SelfSubjectAccessReview"},
		"list":         {http.MethodGet, "", 405, "is not supported"},
		"delete":       {http.MethodDelete, "", 405, "is not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.do(test.method, path, test.body)
			if got.code != test.code || !strings.Contains(string(got.body), test.want) {
				t.Errorf("got %d %s, want %d with %q", got.code, got.body, test.code, test.want)
			}
		})
	}
}
