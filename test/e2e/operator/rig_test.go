// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"

	"github.com/refwatch/refwatch/test/e2e"
)

const (
	// timeout bounds each wait. A test that passes does not reach it.
	timeout = time.Minute

	// namespace and user are those of the manifests.
	namespace = "web"
	user      = "system:serviceaccount:web:operator"

	// manifests is the folder of the operator's manifests.
	manifests = "../../../examples/operator/config"
)

var sites = schema.GroupVersionResource{Group: "web.example.com", Version: "v1", Resource: "sites"}

// rig is a control plane with the operator's manifests, and an administrator's clients.
type rig struct {
	*testing.T

	cluster *e2e.Cluster
	admin   kubernetes.Interface
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	binary  string
	env     []string // beside that of the test
	dir     string   // in which the operator runs; that of the test if empty
}

// newRig starts a control plane with the definition of Sites and the rights of the operator. There are no Sites.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := newEmptyRig(t, build(t))
	r.apply(filepath.Join(manifests, "crd.yaml"))
	r.apply(filepath.Join(manifests, "rbac.yaml"))
	r.awaitServed(sites)
	return r
}

// newEmptyRig starts a control plane without objects.
func newEmptyRig(t *testing.T, binary string) *rig {
	t.Helper()
	r := &rig{T: t, cluster: e2e.New(t, e2e.Options{}), binary: binary}
	r.admin = e2e.Client(t, r.cluster.Admin())
	var err error
	r.dynamic, err = dynamic.NewForConfig(r.cluster.Admin())
	r.must(err)
	r.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(r.admin.Discovery()))
	return r
}

// awaitServed waits until the resource of a new CustomResourceDefinition is served.
func (r *rig) awaitServed(resource schema.GroupVersionResource) {
	r.Helper()
	r.eventually(resource.Resource+" are served", func(ctx context.Context) error {
		_, err := r.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
		return err
	})
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// eventually waits until check returns nil, and otherwise fails the test with its last error.
func (r *rig) eventually(what string, check func(context.Context) error) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	if err := e2e.Poll(ctx, check); err != nil {
		r.Fatalf("%s: %v", what, err)
	}
}

// apply creates the objects of a manifest, each when its kind is served.
func (r *rig) apply(path string) {
	r.Helper()
	text, err := os.ReadFile(path)
	r.must(err)
	r.applyText(path, text)
}

// applyText creates the objects of a manifest, and sets their status if they have one.
func (r *rig) applyText(path string, text []byte) {
	r.Helper()
	const bufferSize = 1024
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), bufferSize); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		r.must(err)
		if object.Object == nil { // of comments only
			continue
		}
		status, ok := object.Object["status"]
		var client dynamic.ResourceInterface
		r.eventually(path+": "+object.GetKind()+" "+object.GetName(), func(ctx context.Context) error {
			if client, err = r.clientOf(object.GroupVersionKind(), object.GetNamespace()); err != nil {
				return err
			}
			created, err := client.Create(ctx, object, metav1.CreateOptions{})
			if err == nil {
				object = created
			}
			return err
		})
		if ok && object.GetKind() != "CustomResourceDefinition" {
			object.Object["status"] = status
			_, err := client.UpdateStatus(r.Context(), object, metav1.UpdateOptions{})
			r.must(err)
		}
	}
}

// clientOf returns a client for the objects of a kind in a namespace, or for those of a cluster-scoped kind. After an
// error the next call asks the server again for its kinds.
func (r *rig) clientOf(kind schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	var versions []string // none: the preferred one
	if kind.Version != "" {
		versions = append(versions, kind.Version)
	}
	mapping, err := r.mapper.RESTMapping(kind.GroupKind(), versions...)
	if err != nil {
		r.mapper.Reset()
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return r.dynamic.Resource(mapping.Resource), nil
	}
	return r.dynamic.Resource(mapping.Resource).Namespace(namespace), nil
}

// grant adds a name to the Role of Secrets.
func (r *rig) grant(name string) {
	r.Helper()
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": "/rules/0/resourceNames/-", "value": name}})
	r.must(err)
	_, err = r.admin.RbacV1().Roles(namespace).Patch(r.Context(), "secrets-of-sites", types.JSONPatchType, patch, metav1.PatchOptions{})
	r.must(err)
}

// createSecret creates a Secret in the namespace of the Sites.
func (r *rig) createSecret(name, value string) *corev1.Secret {
	r.Helper()
	secret, err := r.admin.CoreV1().Secrets(namespace).Create(r.Context(), secretOf(name, value), metav1.CreateOptions{})
	r.must(err)
	return secret
}

func (r *rig) setSecret(name, value string) *corev1.Secret {
	r.Helper()
	secret, err := r.admin.CoreV1().Secrets(namespace).Update(r.Context(), secretOf(name, value), metav1.UpdateOptions{})
	r.must(err)
	return secret
}

func secretOf(name, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"value": []byte(value)}}
}

func (r *rig) deleteSites() {
	r.Helper()
	r.must(r.dynamic.Resource(sites).Namespace(namespace).DeleteCollection(r.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
}

// requestsOf calls yield for each request of the operator to a path of Secrets, by the audit log.
func (r *rig) requestsOf(yield func(event e2e.AuditEvent, u *url.URL)) error {
	r.Helper()
	return r.allRequestsOf(func(event e2e.AuditEvent, u *url.URL) {
		if strings.HasSuffix(u.Path, "/secrets") {
			yield(event, u)
		}
	})
}

// allRequestsOf calls yield for each request of the operator, by the audit log.
func (r *rig) allRequestsOf(yield func(event e2e.AuditEvent, u *url.URL)) error {
	r.Helper()
	events, err := r.cluster.AuditEvents()
	if err != nil {
		return err
	}
	for _, event := range events {
		u, err := url.ParseRequestURI(event.RequestURI)
		r.must(err)
		if event.User.Username == user {
			yield(event, u)
		}
	}
	return nil
}

// siteStatus is the status of a Site.
type siteStatus struct {
	Secrets    []secretStatus     `json:"secrets"`
	Conditions []metav1.Condition `json:"conditions"`
}

type secretStatus struct {
	Name            string `json:"name"`
	ResourceVersion string `json:"resourceVersion"`
}

// ready returns the reason of the condition Ready. It is empty if there is none.
func (s siteStatus) ready() string {
	if condition := meta.FindStatusCondition(s.Conditions, "Ready"); condition != nil {
		return condition.Reason
	}
	return ""
}

// hasVersion reports whether the status has this version of a Secret.
func (s siteStatus) hasVersion(secret *corev1.Secret) bool {
	return slices.ContainsFunc(s.Secrets, func(got secretStatus) bool {
		return got.Name == secret.Name && got.ResourceVersion == secret.ResourceVersion
	})
}

// status returns the status of a Site.
func (r *rig) status(ctx context.Context, name string) (status siteStatus, err error) {
	site, err := r.dynamic.Resource(sites).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err != nil {
		return status, err
	}
	content, _, err := unstructured.NestedMap(site.Object, "status")
	if err != nil {
		return status, err
	}
	return status, runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status)
}

// eventuallyReady waits until the condition Ready of a Site has this reason, and its status these Secrets.
func (r *rig) eventuallyReady(name, reason string, secrets ...*corev1.Secret) {
	r.Helper()
	r.eventually("Site "+name, func(context.Context) error {
		// Not with the context of Poll, whose end would hide the last status.
		status, err := r.status(r.Context(), name)
		if err != nil {
			return err
		}
		if status.ready() != reason {
			return fmt.Errorf("got reason %q, want %q", status.ready(), reason)
		}
		for _, secret := range secrets {
			if !status.hasVersion(secret) {
				return fmt.Errorf("got %+v, want version %s of %s", status.Secrets, secret.ResourceVersion, secret.Name)
			}
		}
		return nil
	})
}
