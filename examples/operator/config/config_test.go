// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"testing"
)

// TestRules: the manifest grants what the README says, and of Secrets no more than to get, list and watch them by name.
func TestRules(t *testing.T) {
	rules, err := Rules()
	if err != nil {
		t.Fatal(err)
	}
	var resources []string
	for _, rule := range rules {
		resources = append(resources, rule.Resources...)
		if slices.Contains(rule.Resources, "*") || slices.Contains(rule.Verbs, "*") {
			t.Errorf("rule %+v: got a wildcard, want none", rule)
		}
		if slices.Contains(rule.Resources, "secrets") && (len(rule.ResourceNames) == 0 || !slices.Equal(rule.Verbs, []string{"get", "list", "watch"})) {
			t.Errorf("rule %+v: want get, list and watch, with resourceNames", rule)
		}
	}
	if want := []string{"sites", "sites/status", "secrets"}; !slices.Equal(resources, want) {
		t.Errorf("resources: got %v, want %v", resources, want)
	}
}
