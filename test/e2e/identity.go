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

// The groups that kube-apiserver knows without being told.
const (
	mastersGroup = "system:masters" // may do everything, whatever the authorizers say
	nodesGroup   = "system:nodes"   // what the Node authorizer asks for
)

// Admin returns the configuration of a user who may do everything.
func (c *Cluster) Admin() *rest.Config { return c.User("admin", mastersGroup) }

// Node returns the configuration of the node with that name. The Node authorizer lets it read what pods refer to
// that are bound to it, some milliseconds after they were bound. No Node object is created.
func (c *Cluster) Node(name string) *rest.Config { return c.User("system:node:"+name, nodesGroup) }

// User returns the configuration of a user with a client certificate of its own. Each call issues a new one.
//
// The caller owns the configuration. It has no limit of requests per second, and reaches the server directly:
// see [Cluster.ThroughProxy]. If no certificate can be issued, for a user without a name above all, every request
// fails with the reason.
func (c *Cluster) User(name string, groups ...string) *rest.Config {
	config := c.anonymous()
	issued, err := c.authority.client(name, groups)
	if err != nil {
		config.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, err }
	}
	config.CertData, config.KeyData = issued.certificate, issued.key
	return config
}

// ServiceAccount returns the configuration of a service account, with a token that is valid for an hour. The
// account is created if there is none.
//
// Deleting the account revokes its tokens: the server answers 401 after ten seconds at most, for so long it
// remembers a token that was good. An account created anew has a new UID, and old tokens stay invalid.
//
// The errors are those of the API server, for a namespace that does not exist as well.
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
		return nil, fmt.Errorf("asking for a token of service account %s/%s: %w", namespace, name, err)
	}
	config := c.anonymous()
	config.BearerToken = issued.Status.Token
	return config, nil
}

// ThroughProxy returns a copy of config that reaches the server through [Cluster.Proxy].
func (c *Cluster) ThroughProxy(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Host = "https://" + c.Proxy.Addr()
	return config
}

// anonymous returns the configuration of nobody in particular.
func (c *Cluster) anonymous() *rest.Config {
	return &rest.Config{
		Host:            "https://" + c.port.addr,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.authority.bundle},
		QPS:             -1,
	}
}
