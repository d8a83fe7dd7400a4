// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// measuredCase is the file case.yaml of an operator in test/operators: how to run it, and how to see that it works.
type measuredCase struct {
	// Programs are those to compare, the one as released first.
	Programs []string `json:"programs"`
	// Args are the arguments, and Env is the environment. TEMPORARY stands for a new folder, FOLDER for that of the
	// case.
	Args []string `json:"args"`
	Env  []string `json:"env"`
	// ForeignType is the type of the foreign Secrets. Default: that of Helm.
	ForeignType corev1.SecretType `json:"foreignType"`
	// Rights are beside those of the ClusterRoles and Roles in the folder "rbac".
	Rights []rbacv1.PolicyRule `json:"rights"`
	// Named are rights in the namespaces that are its keys, which take the place of all rights on Secrets. With an
	// empty namespace they hold everywhere.
	Named map[string][]rbacv1.PolicyRule `json:"named"`
	// Outcome is what the operator does when it works.
	Outcome expectation `json:"outcome"`
	// Change is what happens then.
	Change change `json:"change"`
}

// reference names an object.
type reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
}

// expectation is a text that an object has at a JSONPath sooner or later.
type expectation struct {
	reference `json:",inline"`

	Path string `json:"path"`
	Want string `json:"want"`
}

// change is a merge patch of an object, or its deletion if there is no patch, and what the operator does then.
type change struct {
	reference `json:",inline"`

	Patch   map[string]any `json:"patch"`
	Outcome expectation    `json:"outcome"`
}

// readCase reads the case of a folder.
func readCase(folder string) (c measuredCase, err error) {
	text, err := os.ReadFile(filepath.Join(folder, "case.yaml"))
	if err != nil {
		return c, err
	}
	c.ForeignType = "helm.sh/release.v1"
	err = yaml.UnmarshalStrict(text, &c)
	return c, err
}

// check returns an error unless the object is as expected.
func (r *rig) check(ctx context.Context, want expectation) error {
	client, err := r.clientOf(schema.FromAPIVersionAndKind(want.APIVersion, want.Kind), want.Namespace)
	if err != nil {
		return err
	}
	object, err := client.Get(ctx, want.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	path := jsonpath.New("outcome").AllowMissingKeys(true)
	if err := path.Parse(want.Path); err != nil {
		return err
	}
	var got bytes.Buffer
	if err := path.Execute(&got, object.Object); err != nil {
		return err
	}
	if !strings.Contains(got.String(), want.Want) {
		return fmt.Errorf("%s %s: got %q at %s, want %q", want.Kind, want.Name, &got, want.Path, want.Want)
	}
	return nil
}

// change makes a change.
func (r *rig) change(change change) {
	r.Helper()
	client, err := r.clientOf(schema.FromAPIVersionAndKind(change.APIVersion, change.Kind), change.Namespace)
	r.must(err)
	if change.Patch == nil {
		r.must(client.Delete(r.Context(), change.Name, metav1.DeleteOptions{}))
		return
	}
	patch, err := utiljson.Marshal(change.Patch)
	r.must(err)
	_, err = client.Patch(r.Context(), change.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	r.must(err)
}

// rulesOf returns the rules of all ClusterRoles and Roles in a folder of manifests.
func (r *rig) rulesOf(folder string) (rules []rbacv1.PolicyRule) {
	r.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	r.must(err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		r.must(err)
		objects, err := decode(text)
		r.must(err)
		for _, object := range objects {
			if kind := object.GetKind(); kind != "ClusterRole" && kind != "Role" {
				continue
			}
			text, err := object.MarshalJSON()
			r.must(err)
			var role rbacv1.ClusterRole
			r.must(yaml.Unmarshal(text, &role))
			rules = append(rules, role.Rules...)
		}
	}
	return rules
}

// withoutSecrets returns the rules without those on Secrets.
func withoutSecrets(rules []rbacv1.PolicyRule) (others []rbacv1.PolicyRule) {
	for _, rule := range rules {
		rule = *rule.DeepCopy()
		var resources []string
		for _, resource := range rule.Resources {
			if resource != "secrets" {
				resources = append(resources, resource)
			}
		}
		if len(resources) > 0 || len(rule.Resources) == 0 {
			rule.Resources = resources
			others = append(others, rule)
		}
	}
	return others
}

// decode returns the objects of a manifest.
func decode(text []byte) (objects []unstructured.Unstructured, err error) {
	for document := range strings.SplitSeq(string(text), "\n---") {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return nil, err
		}
		if object.Object != nil {
			objects = append(objects, object)
		}
	}
	return objects, nil
}
