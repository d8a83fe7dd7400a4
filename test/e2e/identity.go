// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Built-in groups of kube-apiserver.
const (
	mastersGroup = "system:masters" // may do everything
	nodesGroup   = "system:nodes"   // required by the Node authorizer
)

// Admin returns the configuration of a user who may do everything.
func (c *Cluster) Admin() *rest.Config { return c.User("admin", mastersGroup) }

// Node returns the configuration of the node with that name. The Node authorizer lets it read the objects that pods
// bound to it reference, some milliseconds after they were bound. No Node object is created.
func (c *Cluster) Node(name string) *rest.Config { return c.User("system:node:"+name, nodesGroup) }

// User returns the configuration of a user. Each call issues a new client certificate.
//
// The caller owns the configuration. It has no rate limit, and connects to the server directly: see
// [Cluster.ThroughProxy]. If no certificate can be issued, for instance without a name, every request returns the
// error.
func (c *Cluster) User(name string, groups ...string) *rest.Config {
	config := c.anonymous()
	issued, err := c.authority.client(name, groups)
	if err != nil {
		config.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, err }
	}
	config.CertData, config.KeyData = issued.certificate, issued.key
	return config
}

// ServiceAccount returns the configuration of a service account, with a token that is valid for an hour. It creates the
// account if necessary.
//
// Deleting the account revokes its tokens: the server, which caches authentication, answers 401 after at most ten
// seconds. A recreated account has a new UID, and old tokens stay invalid.
//
// The errors are those of the API server. The namespace must exist.
func (c *Cluster) ServiceAccount(ctx context.Context, namespace, name string) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	accounts := client.CoreV1().ServiceAccounts(namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("creating service account %s/%s: %w", namespace, name, err)
	}
	issued, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("requesting a token of service account %s/%s: %w", namespace, name, err)
	}
	config := c.anonymous()
	config.BearerToken = issued.Status.Token
	return config, nil
}

// ThroughProxy returns a copy of config that connects through [Cluster.Proxy].
func (c *Cluster) ThroughProxy(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Host = "https://" + c.Proxy.Addr()
	return config
}

// anonymous returns a configuration without credentials.
func (c *Cluster) anonymous() *rest.Config {
	return &rest.Config{
		Host:            "https://" + c.port.addr,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.authority.bundle},
		QPS:             -1,
	}
}
