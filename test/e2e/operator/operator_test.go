// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/test/e2e"
)

// TestOperator runs the operator with each cache, on one control plane.
func TestOperator(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"shop-tls", "blog-tls", "vault", "of-others"} {
		r.createSecret(name, "1")
	}
	for _, test := range []struct {
		name string
		run  func(*rig)
	}{
		{"stock cache with rights for the named Secrets", stockWithNamedRights},
		{"refwatch with rights for the named Secrets", refwatchWithNamedRights},
		{"stock cache with rights for all Secrets", stockWithAllRights},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := *r
			r.T = t
			r.apply(filepath.Join(manifests, "example.yaml"))
			test.run(&r)
			r.deleteSites()
		})
	}
}

// stockWithNamedRights: the operator ends, because it may not list all Secrets, and no Site has a status.
func stockWithNamedRights(r *rig) {
	p := r.start("--cache=stock", "--cache-sync-timeout=3s")
	r.wait(p)
	if p.err == nil || !strings.Contains(p.output.String(), `cannot list resource \"secrets\" in API group \"\" at the cluster scope`) {
		r.Errorf("operator: got error %v, want a refusal to list all Secrets, in:\n%s", p.err, &p.output)
	}
	for _, name := range []string{"shop", "blog", "bank"} {
		if status, err := r.status(r.Context(), name); err != nil || status.ready() != "" {
			r.Errorf("Site %s: got error %v and reason %q, want no status", name, err, status.ready())
		}
	}
}

// refwatchWithNamedRights: a missing or refused Secret concerns its Site only, changes and grants are noticed, and the
// operator requests no other Secret.
func refwatchWithNamedRights(r *rig) {
	p := r.start()
	r.eventuallyReady("blog", "SecretsRead")
	r.eventuallyReady("shop", "NotFound")
	r.eventuallyReady("bank", "Forbidden")
	created := r.createSecret("shop-db", "1")
	r.eventuallyReady("shop", "SecretsRead", created)
	r.eventuallyReady("shop", "SecretsRead", r.setSecret("shop-tls", "2"))
	r.eventuallyReady("blog", "SecretsRead", r.setSecret("blog-tls", "2"))
	r.eventuallyReady("bank", "Forbidden")
	r.grant("vault")
	r.eventuallyReady("bank", "SecretsRead")
	r.must(r.admin.CoreV1().Secrets(namespace).Delete(r.Context(), "shop-db", metav1.DeleteOptions{}))
	r.eventuallyReady("shop", "NotFound")
	r.stop(p)
	if strings.Contains(p.output.String(), "panic") {
		r.Errorf("operator: got a panic:\n%s", &p.output)
	}
	r.checkRequests()
}

// stockWithAllRights: the same program works with the stock cache and the right to list all Secrets.
func stockWithAllRights(r *rig) {
	r.apply(filepath.Join(manifests, "stock-rbac.yaml"))
	p := r.start("--cache=stock")
	r.eventuallyReady("blog", "SecretsRead")
	r.eventuallyReady("shop", "NotFound")
	r.eventuallyReady("bank", "SecretsRead")
	r.eventuallyReady("blog", "SecretsRead", r.setSecret("blog-tls", "3"))
	r.stop(p)
}

// checkRequests checks the audit log: every request of the operator for Secrets that the server has not refused is a
// list or watch of one Secret that a Site names, by name.
func (r *rig) checkRequests() {
	r.Helper()
	named := []string{"shop-tls", "shop-db", "blog-tls", "vault"}
	found := 0
	r.must(r.requestsOf(func(event e2e.AuditEvent, u *url.URL) {
		if event.ResponseStatus.Code == http.StatusForbidden { // of the stock cache
			return
		}
		found++
		name, byName := strings.CutPrefix(u.Query().Get("fieldSelector"), "metadata.name=")
		if u.Path != "/api/v1/namespaces/web/secrets" || !byName || !slices.Contains(named, name) {
			r.Errorf("audit log: the operator sent %s %s", event.Verb, event.RequestURI)
		}
	}))
	if found == 0 {
		r.Error("audit log: got no request of the operator for Secrets, want some")
	}
}
