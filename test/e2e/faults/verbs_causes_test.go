// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/e2e"
)

// Why lists and watches of a resource fail while GETs work.

// poison is an object that the API server cannot read, and so it has no watch cache of the resource.
const poison = "poison"

// listWorks returns the error of a list. client-go repeats one that is throttled, which takes longer than a second.
func listWorks[L any](ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := list(ctx, metav1.ListOptions{})
	return err
}

// testUnreadableNeighbour: the server cannot decode one Secret, as if its encryption key were lost. So it answers 429
// to lists and watches of all Secrets.
func testUnreadableNeighbour(t *testing.T, cluster *e2e.Cluster) {
	r := newRig(t, cluster, "unreadable-neighbour", nil, objectcache.WatchOptions{})
	secrets := r.admin.CoreV1().Secrets(r.namespace)
	o := &onlyGets[*corev1.Secret]{
		rig: r, fault: "one Secret unreadable, all throttled", objects: r.store,
		write: func(ctx context.Context, name, value string) (string, error) {
			written, err := secrets.Update(ctx, secret(name, value), updateOptions)
			if apierrors.IsNotFound(err) {
				written, err = secrets.Create(ctx, secret(name, value), createOptions)
			}
			return written.GetResourceVersion(), err
		},
		works: func(ctx context.Context) error { return listWorks(ctx, secrets.List) },
		begin: func(ctx context.Context) error {
			r.put(poison, "first")
			return cluster.Corrupt(ctx, "secrets", r.namespace, poison)
		},
		heal: func(ctx context.Context) error { return cluster.Erase(ctx, "secrets", r.namespace, poison) },
	}
	o.run()
}

// testPriorityAndFairness: one request has the only seat for lists and watches of ConfigMaps by one account. So the
// server answers 429 to all others.
func testPriorityAndFairness(t *testing.T, cluster *e2e.Cluster) {
	const account = "throttled"
	direct, err := cluster.ServiceAccount(t.Context(), metav1.NamespaceDefault, account)
	if err != nil {
		t.Fatal(err)
	}
	config := cluster.ThroughProxy(direct)
	r := newRig(t, cluster, account, config, objectcache.WatchOptions{})
	bindAdmin(r, account)
	client, err := manager.ClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	store := newConfigMaps(t, client, objectcache.WatchOptions{})
	e2e.Run(t, store.Run)
	maps, flow := r.admin.CoreV1().ConfigMaps(r.namespace), r.admin.FlowcontrolV1()
	o := &onlyGets[*corev1.ConfigMap]{
		rig: r, fault: "lists and watches throttled by priority and fairness", objects: store,
		write: func(ctx context.Context, name, value string) (string, error) {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
			written, err := maps.Update(ctx, object, updateOptions)
			if apierrors.IsNotFound(err) {
				written, err = maps.Create(ctx, object, createOptions)
			}
			return written.GetResourceVersion(), err
		},
		works: func(ctx context.Context) error {
			return listWorks(ctx, client.CoreV1().ConfigMaps(r.namespace).List)
		},
		heal: func(ctx context.Context) error { return flow.FlowSchemas().Delete(ctx, account, deleteOptions) },
	}
	o.begin = func(ctx context.Context) error {
		level, flowSchema := oneSeat(account)
		if _, err := flow.PriorityLevelConfigurations().Create(ctx, level, createOptions); err != nil {
			return err
		}
		if _, err := flow.FlowSchemas().Create(ctx, flowSchema, createOptions); err != nil {
			return err
		}
		takeSeat(r, direct)
		r.eventually(func() error {
			if o.works(ctx) == nil {
				return errors.New("a list works, want that it is throttled")
			}
			return nil
		})
		cluster.Proxy.Cut() // a watch that is open needs no seat
		return nil
	}
	o.run()
}

// takeSeat sends requests whose bodies do not end, until the test does. The server gives each up after a minute.
func takeSeat(r *rig, config *rest.Config) {
	maps := e2e.Client(r, config).CoreV1().RESTClient()
	e2e.Run(r, func(ctx context.Context) error {
		for ctx.Err() == nil {
			body, end := io.Pipe()
			_ = context.AfterFunc(ctx, func() { _ = end.Close() })
			maps.Post().Namespace(r.namespace).Resource("configmaps").Body(body).MaxRetries(0).Do(ctx)
			_ = pause(checkInterval)(ctx)
		}
		return nil
	})
}

// oneSeat returns a level of priority that has one seat, and rejects requests when that is taken. It is for lists and
// watches of ConfigMaps by an account, and for the request that takes the seat.
func oneSeat(account string) (*flowcontrolv1.PriorityLevelConfiguration, *flowcontrolv1.FlowSchema) {
	none, metadata := int32(0), metav1.ObjectMeta{Name: account}
	return &flowcontrolv1.PriorityLevelConfiguration{
			ObjectMeta: metadata,
			Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
				Type: flowcontrolv1.PriorityLevelEnablementLimited,
				Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
					NominalConcurrencyShares: &none, BorrowingLimitPercent: &none,
					LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
				},
			},
		}, &flowcontrolv1.FlowSchema{
			ObjectMeta: metadata,
			Spec: flowcontrolv1.FlowSchemaSpec{
				PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: account},
				MatchingPrecedence:         2,
				Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
					Subjects: []flowcontrolv1.Subject{{
						Kind:           flowcontrolv1.SubjectKindServiceAccount,
						ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: metav1.NamespaceDefault, Name: account},
					}},
					ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
						Verbs: []string{"list", "watch", "create"}, APIGroups: []string{""}, Resources: []string{"configmaps"},
						Namespaces: []string{flowcontrolv1.NamespaceEvery},
					}},
				}},
			},
		}
}

// testFailingConversion: the webhook that converts widgets fails for one of them. So the server answers 429 to lists
// and watches of all.
func testFailingConversion(t *testing.T, cluster *e2e.Cluster) {
	r := newRig(t, cluster, "conversion", nil, objectcache.WatchOptions{})
	client, err := dynamic.NewForConfig(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	var fails atomic.Bool
	stored := schema.GroupVersionResource{Group: "shop.example", Version: "v1", Resource: "widgets"}
	read := stored.GroupResource().WithVersion("v2")
	installConverted(r, client, stored, startConversion(t, &fails))
	source := resource.FromConfig[*unstructured.Unstructured, *unstructured.UnstructuredList](cluster.Admin(), read)
	store, err := objectcache.NewWatchStore(source, objectcache.WatchOptions{OutageGrace: -1})
	if err != nil {
		t.Fatal(err)
	}
	e2e.Run(t, store.Run)
	write := func(ctx context.Context, name, value string) (string, error) {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"value": value}}}
		object.SetGroupVersionKind(stored.GroupVersion().WithKind("Widget"))
		object.SetName(name)
		written, err := client.Resource(stored).Namespace(r.namespace).Apply(ctx, name, object, metav1.ApplyOptions{FieldManager: "test"})
		if err != nil {
			return "", err
		}
		return written.GetResourceVersion(), nil
	}
	o := &onlyGets[*unstructured.Unstructured]{
		rig: r, fault: "the conversion of one custom resource fails", objects: store, write: write,
		works: func(ctx context.Context) error {
			return listWorks(ctx, client.Resource(read).Namespace(r.namespace).List)
		},
		begin: func(ctx context.Context) error {
			fails.Store(true)
			_, err := write(ctx, poison, "first")
			return err
		},
		heal: func(context.Context) error { fails.Store(false); return nil },
	}
	r.eventually(func() error { return o.works(r.Context()) })
	o.run()
}

// startConversion starts a webhook that converts objects between versions that differ in nothing. While fails is true,
// it refuses poison.
func startConversion(t *testing.T, fails *atomic.Bool) (clientConfig map[string]any) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var review struct {
			metav1.TypeMeta `json:",inline"`

			Request struct {
				UID               string                      `json:"uid"`
				DesiredAPIVersion string                      `json:"desiredAPIVersion"`
				Objects           []unstructured.Unstructured `json:"objects"`
			} `json:"request"`
		}
		if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		result := metav1.StatusSuccess
		for i := range review.Request.Objects {
			object := &review.Request.Objects[i]
			object.SetAPIVersion(review.Request.DesiredAPIVersion)
			if fails.Load() && object.GetName() == poison {
				result = metav1.StatusFailure
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": review.APIVersion, "kind": review.Kind,
			"response": map[string]any{
				"uid": review.Request.UID, "result": metav1.Status{Status: result}, "convertedObjects": review.Request.Objects,
			},
		})
	}))
	t.Cleanup(server.Close)
	return map[string]any{
		"url":      server.URL,
		"caBundle": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
}

// installConverted creates the CustomResourceDefinition of a resource that is stored as one version, and also served as
// v2.
func installConverted(r *rig, client dynamic.Interface, stored schema.GroupVersionResource, webhook map[string]any) {
	r.Helper()
	version := func(name string) map[string]any {
		return map[string]any{
			"name": name, "served": true, "storage": name == stored.Version,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		}
	}
	definition := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": stored.GroupResource().String()},
		"spec": map[string]any{
			"group": stored.Group, "scope": "Namespaced",
			"names":    map[string]any{"plural": stored.Resource, "kind": "Widget"},
			"versions": []any{version(stored.Version), version("v2")},
			"conversion": map[string]any{
				"strategy": "Webhook",
				"webhook":  map[string]any{"clientConfig": webhook, "conversionReviewVersions": []string{"v1"}},
			},
		},
	}
	content, err := json.Marshal(definition)
	if err != nil {
		r.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(content); err != nil { // caBundle becomes base64
		r.Fatal(err)
	}
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := client.Resource(definitions).Create(r.Context(), object, createOptions); err != nil {
		r.Fatal(err)
	}
}

// bindAdmin gives a service account all rights.
func bindAdmin(r *rig, account string) {
	r.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: account}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	if _, err := r.admin.RbacV1().ClusterRoleBindings().Create(r.Context(), binding, createOptions); err != nil {
		r.Fatal(err)
	}
}
