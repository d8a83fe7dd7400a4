// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"crypto/tls"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/examples/ingresstls/ca"
	"github.com/refwatch/refwatch/examples/ingresstls/controller"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A TLS config presents the certificates of all Ingresses.
func Example() {
	server, err := serverWithIngress()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client, err := manager.ClientFor(server.Config())
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := controller.New(controller.Options{Client: client})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()

	if err := c.WaitForSync(ctx); err != nil { // before the first connection
		fmt.Println(err)
	}
	config := &tls.Config{GetCertificate: c.GetCertificate, MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true}

	certificate, _ := config.GetCertificate(&tls.ClientHelloInfo{ServerName: "shop.example"})
	fmt.Println(certificate.Leaf.DNSNames)
	for _, status := range c.Status() {
		fmt.Printf("%s: Ingress %s, Secret %s, error %v\n", status.Host, status.Ingress, status.Secret, status.Err)
	}
	cancel()
	fmt.Println("ended with error", <-done)
	// Output:
	// [shop.example]
	// blog.example: Ingress default/web, Secret default/blog, error secrets "default/blog" not found
	// shop.example: Ingress default/web, Secret default/shop, error <nil>
	// ended with error <nil>
}

// serverWithIngress starts a server that has an Ingress with two hosts, and the Secret for one of them.
func serverWithIngress() (*apiserver.Server, error) {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		return nil, err
	}
	authority, err := ca.New()
	if err != nil {
		return nil, err
	}
	secret, err := authority.Secret(metav1.NamespaceDefault, "shop", "shop.example")
	if err != nil {
		return nil, err
	}
	client, ctx := server.Client(), context.Background()
	if _, err := client.CoreV1().Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	ingress.Spec.TLS = []networkingv1.IngressTLS{
		{SecretName: "shop", Hosts: []string{"shop.example"}},
		{SecretName: "blog", Hosts: []string{"blog.example"}},
	}
	_, err = client.NetworkingV1().Ingresses(secret.Namespace).Create(ctx, ingress, metav1.CreateOptions{})
	return server, err
}
