// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/refwatch/refwatch/test/e2e"
)

// The server accepts the manifests with which the examples are deployed. The pod security standard "restricted" allows
// pods of the operator and of ingresstls. It does not allow those of the node agent, which mount file systems on the
// host.
func TestManifests(t *testing.T) {
	r := newRig(t, e2e.Options{APIServerArgs: []string{"--allow-privileged=true"}}) // as installers set it
	client, err := dynamic.NewForConfig(r.cluster.Admin())
	r.must(client, err)
	groups, err := restmapper.GetAPIGroupResources(r.admin.Discovery())
	r.must(groups, err)
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	apply := func(t *testing.T, object *unstructured.Unstructured, options metav1.ApplyOptions) {
		t.Helper()
		mapping, err := mapper.RESTMapping(object.GroupVersionKind().GroupKind(), object.GroupVersionKind().Version)
		if err != nil {
			t.Fatal(err)
		}
		options.FieldManager = "test"
		_, err = client.Resource(mapping.Resource).Namespace(object.GetNamespace()).Apply(t.Context(), object.GetName(), object, options)
		if err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	for _, example := range []struct {
		folder     string
		files      []string
		restricted bool
	}{
		{"operator/config", []string{"rbac.yaml", "crd.yaml", "deployment.yaml"}, true},
		{"ingresstls/deploy", []string{"rbac.yaml", "deployment.yaml"}, true},
		{"nodeagent/deploy", []string{"daemonset.yaml", "rbac.yaml", "role.yaml"}, false},
	} {
		for _, file := range example.files {
			for _, object := range manifestsOf(t, filepath.Join("../../../examples", example.folder, file)) {
				options := metav1.ApplyOptions{DryRun: []string{metav1.DryRunAll}}
				if object.GetKind() == "Namespace" {
					options.DryRun = nil // the others are in it
				} else if ns := object.GetNamespace(); ns != "" {
					_, err := r.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
					if err != nil && !apierrors.IsAlreadyExists(err) {
						t.Fatal(err)
					}
				}
				apply(t, object, options)
				if template := templateOf(t, object); template != nil {
					if err := r.createRestricted(template); (err == nil) != example.restricted || err != nil && !strings.Contains(err.Error(), "violates PodSecurity") {
						t.Errorf("a pod of %s where only restricted ones are allowed: got %v, want it allowed: %v", object.GetName(), err, example.restricted)
					}
				}
			}
		}
	}
}

// createRestricted creates a pod, in a dry run, in a namespace with the pod security standard "restricted".
func (r *rig) createRestricted(template *corev1.PodTemplateSpec) error {
	const restricted = "restricted"
	_, err := r.admin.CoreV1().Namespaces().Create(r.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: restricted, Labels: map[string]string{"pod-security.kubernetes.io/enforce": restricted},
	}}, metav1.CreateOptions{})
	if err == nil {
		_, err = r.admin.CoreV1().ServiceAccounts(restricted).Create(r.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		r.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Labels: template.Labels}, Spec: *template.Spec.DeepCopy()}
	pod.Spec.ServiceAccountName = "default"
	_, err = r.admin.CoreV1().Pods(restricted).Create(r.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// manifestsOf returns the objects of a file.
func manifestsOf(t *testing.T, file string) (objects []*unstructured.Unstructured) {
	t.Helper()
	opened, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	for decoder := yaml.NewYAMLOrJSONDecoder(opened, 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// templateOf returns the template of the pods of an object, nil if it has none.
func templateOf(t *testing.T, object *unstructured.Unstructured) *corev1.PodTemplateSpec {
	t.Helper()
	var err error
	switch object.GetKind() {
	case "Deployment":
		var typed appsv1.Deployment
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &typed)
		if err == nil {
			return &typed.Spec.Template
		}
	case "DaemonSet":
		var typed appsv1.DaemonSet
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &typed)
		if err == nil {
			return &typed.Spec.Template
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return nil
}
