// SPDX-License-Identifier: Apache-2.0

package debug_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/refwatch/refwatch/manager/debug"
	"github.com/refwatch/refwatch/objectcache"
)

// permitted is a source that says what it needs, as a store does.
type permitted struct {
	source

	needs objectcache.Permissions
}

func (p permitted) Permissions() objectcache.Permissions { return p.needs }

// The query format=roles returns the Roles for the objects that match, and a ClusterRole for cluster-scoped kinds. A
// source that does not say what it needs is named in a comment.
func TestRoles(t *testing.T) {
	refused, node := object("private", objectcache.PhaseFailing), object("node", objectcache.PhaseServing)
	node.Key.Namespace = ""
	secrets := objectcache.Permissions{Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Verbs: []string{"list", "watch"}}
	nodes := objectcache.Permissions{Resource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, ClusterScoped: true, Verbs: []string{"get"}}
	handler := newHandler(t, debug.Options{Sources: map[string]debug.Source{
		"secrets": permitted{source{object("tls", objectcache.PhaseServing), refused}, secrets},
		"nodes":   permitted{source{node}, nodes},
		"others":  source{object("other", objectcache.PhaseServing)},
	}})
	const role = `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: refwatch
  namespace: default
rules:
- apiGroups:
  - ""
  resourceNames:
  - private
`
	for query, want := range map[string]string{
		"?format=roles&phase=Failing":   role + "  resources:\n  - secrets\n  verbs:\n  - list\n  - watch\n",
		"?format=roles&filter=no-such":  "# no objects\n",
		"?format=roles&resource=others": "# others: not known: the source has neither Permissions nor Access\n# no objects\n",
		"?format=roles&resource=nodes":  strings.NewReplacer("kind: Role", "kind: ClusterRole", "  namespace: default\n", "", "private", "node").Replace(role) + "  resources:\n  - nodes\n  verbs:\n  - get\n",
	} {
		response := get(handler, query)
		if got := response.Body.String(); got != want || response.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s: got\n%s\nwant\n%s", query, got, want)
		}
	}
	all := get(handler, "?format=roles").Body.String()
	for _, part := range []string{"# others:", "- tls\n", "kind: Role\n", "---\n", "kind: ClusterRole\n"} {
		if !strings.Contains(all, part) {
			t.Errorf("all: got\n%s\nwant %q in it", all, part)
		}
	}
}
