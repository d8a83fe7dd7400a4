// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/refwatch/refwatch/examples/operator/config"
	"github.com/refwatch/refwatch/test/apiserver"
)

// operatorAgent is the user agent of the operator. The server has only one user, so that is how the demo knows the
// operator's requests.
const operatorAgent = "refwatch-operator"

// role has the rights of the operator.
type role struct {
	mu    sync.Mutex
	rules []rbacv1.PolicyRule
}

// newRole returns the rights of config/rbac.yaml.
func newRole() (*role, error) {
	rules, err := config.Rules()
	return &role{rules: rules}, err
}

// allows reports whether RBAC would allow a request. The server calls it for each request.
func (r *role) allows(request apiserver.Request) bool {
	if !isOperator(request) {
		return true
	}
	resource := request.Resource
	if request.Subresource != "" {
		resource += "/" + request.Subresource
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Verbs, request.Verb) && slices.Contains(rule.APIGroups, request.Group) &&
			slices.Contains(rule.Resources, resource) &&
			(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, request.Name))
	})
}

// grant adds the rights to get, list and watch a Secret.
func (r *role) grant(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules = append(r.rules, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret}, Verbs: []string{"get", "list", "watch"},
	})
}

func isOperator(request apiserver.Request) bool {
	return strings.HasSuffix(request.UserAgent, "/"+operatorAgent)
}
