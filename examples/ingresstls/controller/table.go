// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/objectcache"
)

// table has the certificate of each host. It is not changed once it is stored.
type table struct {
	hosts    map[string]*entry // also *.DOMAIN
	fallback entry             // for all other hosts
	replaced chan struct{}     // closed when another table is stored
}

// entry is what a handshake for a host presents, and why.
type entry struct {
	claim

	certificate *Certificate           // nil if there is none
	err         error                  // why the state of the Secret is not presented; nil if it is
	ignored     []types.NamespacedName // other Ingresses that name the host, oldest first
}

func newTable() *table {
	return &table{hosts: map[string]*entry{}, replaced: make(chan struct{})}
}

// newTable returns the table of what is in memory. before is the last one, whose certificates may be kept.
func (c *Controller) newTable(before *table) *table {
	t := newTable()
	if c.options.DefaultCertificate.Name != "" {
		t.fallback = c.newEntry(claim{secret: c.options.DefaultCertificate}, &before.fallback)
	}
	for _, ingress := range c.byAge() {
		for _, claim := range claimsOf(ingress) {
			switch owner := t.hosts[claim.host]; {
			case owner == nil:
				e := c.newEntry(claim, before.hosts[claim.host])
				t.hosts[claim.host] = &e
			case owner.uid != claim.uid:
				owner.ignored = append(owner.ignored, claim.ingress)
			}
			// Else the Ingress names the host twice, and the first Secret counts.
		}
	}
	return t
}

var errNoSecretName = errors.New("the Ingress names no Secret for the host")

// newEntry returns the entry for a claim. before is the last one of the host, or nil.
func (c *Controller) newEntry(of claim, before *entry) entry {
	e := entry{claim: of, err: errNoSecretName}
	if of.secret.Name == "" {
		return e
	}
	e.certificate, e.err = c.certificates.TryGet(of.secret.Namespace, of.secret.Name)
	if e.err == nil && of.host != "" {
		e.err = e.certificate.checkHost(of.host)
	}
	if e.err == nil {
		return e
	}
	e.certificate = nil
	if before != nil && before.uid == of.uid && !apierrors.IsNotFound(e.err) {
		e.certificate = before.certificate
	}
	return e
}

var noEntry = &entry{}

// lookup returns the entry of a server name, or noEntry if no Ingress names it.
func (t *table) lookup(serverName string) *entry {
	name := strings.ToLower(serverName)
	if e := t.hosts[name]; e != nil {
		return e
	}
	if _, domain, ok := strings.Cut(name, "."); ok {
		if e := t.hosts["*."+domain]; e != nil {
			return e
		}
	}
	return noEntry
}

// log logs how the table differs from the one before.
func (t *table) log(logger klog.Logger, before *table) {
	t.fallback.log(logger, &before.fallback)
	for host, e := range t.hosts {
		e.log(logger, before.hosts[host])
	}
	for host, e := range before.hosts {
		if t.hosts[host] == nil {
			logger.V(2).Info("No Ingress names the host any more", "host", host, "ingress", e.ingress)
		}
	}
}

// log logs how the entry differs from the one before, which may be nil. An error is logged once, and not while it means
// that the first read is under way.
func (e *entry) log(logger klog.Logger, before *entry) {
	if before == nil {
		before = &entry{}
	}
	logger = logger.WithValues("host", e.host, "ingress", e.ingress, "secret", e.secret)
	if text(e.err) != text(before.err) && e.err != nil {
		if isPending(e.err) {
			logger.V(4).Info("The Secret is not read yet", "err", e.err)
		} else {
			logger.Error(e.err, "Cannot use the Secret", "keepsLastCertificate", e.certificate != nil)
		}
	}
	if e.certificate != nil && e.certificate != before.certificate {
		logger.V(2).Info("Presents a new certificate", "resourceVersion", e.certificate.Version,
			"serial", e.certificate.Leaf.SerialNumber, "notAfter", e.certificate.Leaf.NotAfter)
	}
	if len(e.ignored) > len(before.ignored) {
		logger.Info("Several Ingresses name the host, only the oldest has it", "ignored", e.ignored)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// isPending reports whether the state of a Secret is not known yet, and the server does not refuse it.
func isPending(err error) bool {
	return errors.Is(err, objectcache.ErrNotRegistered) ||
		errors.Is(err, objectcache.ErrNotSynced) && !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err)
}
