// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/access"
	"github.com/refwatch/refwatch/objectcache/derived"
	"github.com/refwatch/refwatch/reflector"
)

// Options configures a [Controller].
type Options struct {
	// Client is the client for the API server. Required. See [manager.ClientFor].
	Client kubernetes.Interface
	// Namespace is the namespace of the Ingresses. Default: all namespaces.
	Namespace string
	// IngressClass selects Ingresses by spec.ingressClassName. Default: all Ingresses.
	IngressClass string
	// DefaultCertificate is the Secret with the certificate for all other hosts. Default: none.
	DefaultCertificate types.NamespacedName
}

// Controller holds the certificate of each host. Create one with [New], then call Run once.
type Controller struct {
	options      Options
	ingresses    *reflector.Reflector
	secrets      *manager.Manager[*corev1.Secret]
	certificates *derived.Values[*Certificate]
	table        atomic.Pointer[table] // never nil
	counters     counters
	changed      chan struct{} // holds a value while the table may be older than what is in memory
	listed       chan struct{} // closed after the first list of Ingresses

	building sync.Mutex // held by the one build of a table; handshakes take no lock

	mu      sync.Mutex
	current map[types.UID]*networkingv1.Ingress // nil before the first list
}

// New returns a controller, or an error if the client is missing. It starts nothing: see [Controller.Run].
func New(options Options) (*Controller, error) {
	if options.Client == nil {
		return nil, errors.New("the client is missing")
	}
	gate := objectcache.NewGate(objectcache.GateOptions{}) // one for all streams of the client
	// WatchImmutable: an immutable Secret is rotated by deleting it and creating it again.
	secrets, err := manager.NewSecrets(options.Client, objectcache.WatchOptions{Gate: gate, WatchImmutable: true})
	if err != nil {
		return nil, err
	}
	c := &Controller{
		options:      options,
		secrets:      secrets,
		certificates: derived.New(secrets, parse),
		changed:      make(chan struct{}, 1),
		listed:       make(chan struct{}),
	}
	c.table.Store(newTable())
	if key := options.DefaultCertificate; key.Name != "" {
		secrets.SetReferences(manager.Owner{Kind: "DefaultCertificate", Name: key.String()}, key)
	}
	// The store calls setIngresses with all Ingresses after each event.
	store := &toolscache.UndeltaStore{Store: toolscache.NewStore(toolscache.MetaNamespaceKeyFunc), PushFunc: c.setIngresses}
	source := toolscache.NewListWatchFromClient(
		options.Client.NetworkingV1().RESTClient(), "ingresses", options.Namespace, fields.Everything())
	c.ingresses = reflector.New(source, store,
		reflector.Options{Name: "ingresses", Resource: "ingresses", Gate: gate})
	return c, nil
}

// Run keeps the certificates up to date until ctx ends. It returns when all its goroutines have ended. An API server
// that cannot be reached is no error: Run waits for it. After Run, the last certificates are still presented.
func (c *Controller) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.secrets.Run(ctx) })
	group.Go(func() error { c.ingresses.Run(ctx); return nil })
	group.Go(func() error {
		for range c.secrets.Changes(ctx) {
			c.requestBuild()
		}
		return nil
	})
	group.Go(func() error {
		for {
			select {
			case <-c.changed:
				c.build(klog.FromContext(ctx))
			case <-ctx.Done():
				return nil
			}
		}
	})
	return group.Wait()
}

// WaitForIngresses waits until the Ingresses are listed. If ctx ends first, the error has the cause.
func (c *Controller) WaitForIngresses(ctx context.Context) error {
	select {
	case <-c.listed:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("the Ingresses are not listed yet"), c.ingresses.Status().LastError, context.Cause(ctx))
	}
}

// WaitForSync waits until the Ingresses are listed, and the table has the certificates of all Secrets that they
// reference then. Wait for it before you accept connections. A Secret that is absent, refused or unusable is not waited
// for: the error is about those that could not be read, and the others are presented.
func (c *Controller) WaitForSync(ctx context.Context) error {
	if err := c.WaitForIngresses(ctx); err != nil {
		return err
	}
	err := c.secrets.WaitForSync(ctx)
	c.build(klog.FromContext(ctx))
	return err
}

// requestBuild requests a build of the table. A request during a build causes another one.
func (c *Controller) requestBuild() {
	select {
	case c.changed <- struct{}{}:
	default: // it is already requested
	}
}

// build replaces the table with one of what is in memory. It does not wait for the API server.
func (c *Controller) build(logger klog.Logger) {
	c.building.Lock()
	defer c.building.Unlock()
	before := c.table.Load()
	now := c.newTable(before)
	c.table.Store(now)
	close(before.replaced)
	now.log(logger, before)
}

// Certificate returns the certificate for a server name, nil if there is none. It reads memory without a lock.
func (c *Controller) Certificate(serverName string) *Certificate {
	t := c.table.Load()
	certificate := t.lookup(serverName).certificate
	ofIngress := certificate != nil
	if !ofIngress {
		certificate = t.fallback.certificate
	}
	c.counters.count(certificate, ofIngress)
	return certificate
}

// GetCertificate is for [tls.Config].GetCertificate. Leave the Certificates of the config empty: without a certificate
// for the host, the client then gets the alert unrecognized_name.
func (c *Controller) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if certificate := c.Certificate(hello.ServerName); certificate != nil {
		return &certificate.Certificate, nil
	}
	return nil, nil //nolint:nilnil // crypto/tls then sends unrecognized_name; an error would be internal_error
}

// Roles returns the Roles that the controller needs for the Secrets that are referenced now, one for each namespace.
// Beside these it needs list and watch of Ingresses.
func (c *Controller) Roles(name string) ([]rbacv1.Role, error) {
	return access.Roles(name, c.secrets.Access())
}

// RolesYAML returns the Roles as YAML documents, for kubectl apply.
func (c *Controller) RolesYAML(name string) (string, error) {
	roles, err := c.Roles(name)
	var documents strings.Builder
	for i := 0; i < len(roles) && err == nil; i++ {
		var document []byte
		document, err = yaml.Marshal(&roles[i])
		documents.WriteString("---\n")
		documents.Write(document)
	}
	return documents.String(), err
}
