// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/refwatch/refwatch/test/e2e"
)

// issuerVariable is the environment variable with the folder that test/operators/run makes: the programs "stock" and
// "refwatch", the manifests "crds" and the ClusterRole "role.yaml".
const issuerVariable = "AWS_PRIVATECA_ISSUER"

var issuers = schema.GroupVersionResource{Group: "awspca.cert-manager.io", Version: "v1beta1", Resource: "awspcaissuers"}

// TestIssuer runs cert-manager's aws-privateca-issuer without and with its one line changed. It has the rights of its
// ClusterRole. With named rights, those on Secrets are replaced by the right to list and watch one of them by its name.
func TestIssuer(t *testing.T) {
	folder := os.Getenv(issuerVariable)
	if folder == "" {
		t.Skip("test/operators/run runs this test: it sets " + issuerVariable)
	}
	sts := fakeSTS(t)
	for name, test := range map[string]struct {
		program string
		named   bool // whether the rights on Secrets are
		check   func(*rig)
	}{
		"stock cache with its own rights": {"stock", false, func(r *rig) {
			r.eventuallyIssuer("granted", "True: Issuer verified")
			r.eventuallyIssuer("refused", "True: Issuer verified")
		}},
		"stock cache with named rights": {"stock", true, func(r *rig) {
			r.eventually("the operator is refused a list of all Secrets", func(context.Context) error { return r.refusedAll() })
			for _, name := range []string{"granted", "refused"} {
				if got, err := r.issuerReady(name); err != nil || got != "" {
					r.Errorf("issuer %s: got error %v and condition %q, want no condition", name, err, got)
				}
			}
		}},
		"refwatch with named rights": {"refwatch", true, func(r *rig) {
			r.eventuallyIssuer("granted", "True: Issuer verified")
			r.eventuallyIssuer("refused", `False: failed to retrieve secret: secrets "web/refused": not synced`)
			r.must(r.requestsOf(func(event e2e.AuditEvent, u *url.URL) {
				if u.Query().Get("fieldSelector") == "" {
					r.Errorf("audit log: the operator sent %s %s, want requests by name only", event.Verb, event.RequestURI)
				}
			}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newIssuerRig(t, folder, test.program, test.named)
			r.env = []string{"AWS_ENDPOINT_URL_STS=" + sts}
			r.start("--metrics-bind-address=0", "--health-probe-bind-address=0")
			test.check(r)
		})
	}
}

// newIssuerRig starts a control plane with the issuers "granted" and "refused", named after their Secrets.
func newIssuerRig(t *testing.T, folder, program string, named bool) *rig {
	r := newEmptyRig(t, filepath.Join(folder, program))
	definitions, err := filepath.Glob(filepath.Join(folder, "crds", "*.yaml"))
	r.must(err)
	for _, path := range definitions {
		r.apply(path)
	}
	r.createNamespace(namespace)
	r.grantIssuer(filepath.Join(folder, "role.yaml"), named)
	r.awaitServed(issuers)
	for _, name := range []string{"granted", "refused"} {
		secret := secretOf(name, "")
		secret.Data = map[string][]byte{"AWS_ACCESS_KEY_ID": []byte("id"), "AWS_SECRET_ACCESS_KEY": []byte("key")}
		_, err := r.admin.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{})
		r.must(err)
		_, err = r.dynamic.Resource(issuers).Namespace(namespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": issuers.GroupVersion().String(), "kind": "AWSPCAIssuer",
			"metadata": map[string]any{"name": name},
			"spec": map[string]any{
				"arn": "arn:aws:acm-pca:eu-west-1:1:certificate-authority/1", "region": "eu-west-1",
				"secretRef": map[string]any{"namespace": namespace, "name": name},
			},
		}}, metav1.CreateOptions{})
		r.must(err)
	}
	return r
}

// grantIssuer gives the operator the rights of its ClusterRole. If named, it leaves out those on Secrets, and adds
// those to list and watch the Secret "granted".
func (r *rig) grantIssuer(path string, named bool) {
	r.Helper()
	text, err := os.ReadFile(path)
	r.must(err)
	var role rbacv1.ClusterRole
	r.must(yaml.UnmarshalStrict(text, &role))
	meta := metav1.ObjectMeta{Name: "credentials"}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "operator"}}
	if named {
		role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "secrets") })
		_, err = r.admin.RbacV1().Roles(namespace).Create(r.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"granted"}, Verbs: []string{"list", "watch"},
		}}}, metav1.CreateOptions{})
		r.must(err)
		_, err = r.admin.RbacV1().RoleBindings(namespace).Create(r.Context(), &rbacv1.RoleBinding{
			ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		}, metav1.CreateOptions{})
		r.must(err)
	}
	_, err = r.admin.RbacV1().ClusterRoles().Create(r.Context(), &role, metav1.CreateOptions{})
	r.must(err)
	_, err = r.admin.RbacV1().ClusterRoleBindings().Create(r.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}, metav1.CreateOptions{})
	r.must(err)
}

// fakeSTS starts a server that answers GetCallerIdentity, and returns its URL.
func fakeSTS(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		_, _ = fmt.Fprint(w, `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>`+
			`<Arn>arn:aws:iam::1:user/test</Arn><UserId>test</UserId><Account>1</Account>`+
			`</GetCallerIdentityResult></GetCallerIdentityResponse>`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// refusedAll returns nil once the server has refused a list of all Secrets.
func (r *rig) refusedAll() error {
	r.Helper()
	found := errors.New("got no refused list of all Secrets")
	err := r.requestsOf(func(event e2e.AuditEvent, u *url.URL) {
		if u.Path == "/api/v1/secrets" && event.ResponseStatus.Code == http.StatusForbidden {
			found = nil
		}
	})
	if err != nil {
		return err
	}
	return found
}

// issuerReady returns the condition Ready of an issuer, as "STATUS: MESSAGE".
func (r *rig) issuerReady(name string) (string, error) {
	issuer, err := r.dynamic.Resource(issuers).Namespace(namespace).Get(r.Context(), name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	conditions, _, err := unstructured.NestedSlice(issuer.Object, "status", "conditions")
	for _, condition := range conditions {
		if fields, ok := condition.(map[string]any); ok && fields["type"] == "Ready" {
			return fmt.Sprintf("%v: %v", fields["status"], fields["message"]), nil
		}
	}
	return "", err
}

// eventuallyIssuer waits until the condition Ready of an issuer begins with want.
func (r *rig) eventuallyIssuer(name, want string) {
	r.Helper()
	r.eventually("issuer "+name, func(context.Context) error {
		got, err := r.issuerReady(name)
		if err == nil && !strings.HasPrefix(got, want) {
			err = fmt.Errorf("got condition %q, want %q", got, want)
		}
		return err
	})
}
