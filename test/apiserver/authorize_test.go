// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"net/http/httptest"
	"slices"
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
	for path, want := range map[string]string{ // empty: allowed
		"/api/v1/namespaces/default/secrets/db":                                                                      "",
		"/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Ddb":                                        "",
		"/api/v1/namespaces/default/secrets?watch=1&timeoutSeconds=1&fieldSelector=type%3DOpaque,metadata.name%3Ddb": "",
		"/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dother": `secrets "other" is forbidden: ` +
			`User "admin" cannot list resource "secrets" in API group "" in the namespace "default"`,
		"/api/v1/namespaces/default/secrets": `secrets is forbidden: ` +
			`User "admin" cannot list resource "secrets" in API group "" in the namespace "default"`,
		"/api/v1/secrets?watch=1&fieldSelector=metadata.name%3Ddb": `secrets "db" is forbidden: ` +
			`User "admin" cannot watch resource "secrets" in API group "" at the cluster scope`,
		"/api/v1/nodes/n": `nodes "n" is forbidden: User "admin" cannot get resource "nodes" in API group "" at the cluster scope`,
		"/api/v1/namespaces/default/serviceaccounts/a/token": `serviceaccounts "a" is forbidden: ` +
			`User "admin" cannot get resource "serviceaccounts/token" in API group "" in the namespace "default"`,
		widgetsPath: "",
		"/apis/other.example.com/v1alpha1/widgets": `widgets.other.example.com is forbidden: ` +
			`User "admin" cannot list resource "widgets" in API group "other.example.com" at the cluster scope`,
		"/apis/apps/v1/deployments": `deployments.apps is forbidden: ` +
			`User "admin" cannot list resource "deployments" in API group "apps" at the cluster scope`, // not served
	} {
		t.Run(path, func(t *testing.T) {
			got := f.do(http.MethodGet, path, "")
			r := parseRequest(httptest.NewRequest(http.MethodGet, path, nil))
			if want == "" && got.code != 200 {
				t.Errorf("request: got %d %s, want 200", got.code, got.body)
			}
			if want != "" {
				status := got.status(t)
				if got.code != 403 || status.Reason != metav1.StatusReasonForbidden || status.Message != want {
					t.Errorf("request: got %d %s, want 403 %s", got.code, got.body, want)
				}
				if status.Details.Kind != r.Resource || status.Details.Group != r.Group || status.Details.Name != r.Name {
					t.Errorf("request: got details %+v, want group, resource and name of the request", status.Details)
				}
			}
			f.checkReview(authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: r.Verb, Group: r.Group, Version: r.Version, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
			}}, want == "")
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
	f.checkResponses("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", map[string]rawRequest{
		"no attributes": {
			http.MethodPost, "", "", `{}`, 422, `.authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: ` +
				"exactly one of nonResourceAttributes or resourceAttributes must be specified",
		},
		"both":         {http.MethodPost, "", "", `{"spec":{"resourceAttributes":{},"nonResourceAttributes":{}}}`, 422, "cannot be specified in combination with resourceAttributes"},
		"with a name":  {http.MethodPost, "", "", `{"metadata":{"name":"x"},"spec":{"resourceAttributes":{}}}`, 422, "must be empty"},
		"another kind": {http.MethodPost, "", "", `{"apiVersion":"v1","kind":"Secret"}`, 400, "cannot be handled as a SelfSubjectAccessReview"},
		"list":         {http.MethodGet, "", "", "", 405, "is not supported"},
		"delete":       {http.MethodDelete, "", "", "", 405, "is not supported"},
	})
}
