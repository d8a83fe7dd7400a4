// SPDX-License-Identifier: Apache-2.0

// Package config has the manifests of the example operator: its CustomResourceDefinition and its rights, which the demo
// enforces.
package config

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed rbac.yaml
var rbac string

// Rules returns the rules of all Roles and ClusterRoles in rbac.yaml.
func Rules() ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	const bufferSize = 1024
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(rbac), bufferSize)
	for {
		var role rbacv1.ClusterRole // a Role has the same fields; other kinds have no rules
		switch err := decoder.Decode(&role); {
		case errors.Is(err, io.EOF):
			return rules, nil
		case err != nil:
			return nil, fmt.Errorf("reading rbac.yaml: %w", err)
		}
		rules = append(rules, role.Rules...)
	}
}
