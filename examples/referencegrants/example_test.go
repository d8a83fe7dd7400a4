// SPDX-License-Identifier: Apache-2.0

package referencegrants_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/refwatch/refwatch/examples/referencegrants"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A Gateway in the namespace infra names a Secret in the namespace certs. It gets the Secret while a ReferenceGrant in
// certs permits that.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	server, client := serve(ctx)
	defer server.Close()

	gate := objectcache.NewGate(objectcache.GateOptions{})
	secrets, err := manager.NewSecrets(server.Client(), objectcache.WatchOptions{Gate: gate})
	if err != nil {
		panic(err)
	}
	var grants referencegrants.Grants
	secrets.SetReferencePolicy(grants.Permits) // denies until the grants are listed
	applied := make(chan struct{}, 10)
	watch := grants.Watch(client, gate, func() {
		secrets.SetReferencePolicy(grants.Permits)
		applied <- struct{}{}
	})
	var running sync.WaitGroup
	running.Go(func() { _ = secrets.Run(ctx) })
	running.Go(func() { watch.Run(ctx) })

	gateway := manager.Owner{Kind: "Gateway.gateway.networking.k8s.io", Namespace: "infra", Name: "public"}
	secrets.SetReferences(gateway, types.NamespacedName{Namespace: "certs", Name: "tls"})
	read := func(when string) {
		<-applied
		switch secret, err := secrets.GetFor(ctx, gateway, "certs", "tls"); {
		case err == nil:
			fmt.Println(when+":", secret.Name)
		case errors.Is(err, manager.ErrReferenceDenied):
			fmt.Println(when + ": denied") // err says why
		default:
			panic(err)
		}
	}
	read("without a grant")
	if _, err := client.Resource(referencegrants.Resource).Namespace("certs").Create(ctx, grant, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	read("with a grant")
	if err := client.Resource(referencegrants.Resource).Namespace("certs").Delete(ctx, "to-gateways", metav1.DeleteOptions{}); err != nil {
		panic(err)
	}
	read("after its deletion")
	fmt.Println("Secrets in memory:", secrets.Stats().Objects)
	cancel()
	running.Wait()
	// Output:
	// without a grant: denied
	// with a grant: tls
	// after its deletion: denied
	// Secrets in memory: 0
}

var grant = &unstructured.Unstructured{Object: map[string]any{
	"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant", "metadata": map[string]any{"name": "to-gateways"},
	"spec": map[string]any{
		"from": []any{map[string]any{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "infra"}},
		"to":   []any{map[string]any{"group": "", "kind": "Secret", "name": "tls"}},
	},
}}

// serve returns a server with ReferenceGrants and the Secret certs/tls, and a client of it.
func serve(ctx context.Context) (*apiserver.Server, dynamic.Interface) {
	server, err := apiserver.Start(apiserver.Options{CustomResources: []apiserver.CustomResource{{
		Group: referencegrants.Resource.Group, Version: referencegrants.Resource.Version,
		Resource: referencegrants.Resource.Resource, Kind: "ReferenceGrant",
	}}})
	if err != nil {
		panic(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "certs"}}
	if _, err := server.Client().CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tls"}}
	if _, err := server.Client().CoreV1().Secrets("certs").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	client, err := dynamic.NewForConfig(resource.ConfigFor(server.Config()))
	if err != nil {
		panic(err)
	}
	return server, client
}
