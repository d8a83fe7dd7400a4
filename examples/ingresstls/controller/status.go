// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// HostStatus is what the clients of a host get, and what is wrong with it.
type HostStatus struct {
	// Host is a name, a wildcard *.DOMAIN, or empty for the default certificate.
	Host string
	// Ingress is the Ingress that has the host, and Secret the one that it names for it. For the default certificate,
	// Ingress is empty.
	Ingress, Secret types.NamespacedName
	// Certificate is presented now. Nil if there is none.
	Certificate *Certificate
	// Err is nil if the certificate is that of the newest known version of the Secret, the API server confirms it, and
	// it has not expired. apierrors.IsNotFound and apierrors.IsForbidden hold for it where the server says so.
	Err error
	// Ignored are other Ingresses that name the host, oldest first.
	Ignored []types.NamespacedName
}

// Status returns the status of every host, sorted by host. It holds no data of Secrets except certificates.
func (c *Controller) Status() []HostStatus {
	t, now := c.table.Load(), time.Now()
	hosts := make([]HostStatus, 0, len(t.hosts)+1)
	if t.fallback.secret.Name != "" {
		hosts = append(hosts, c.statusOf(&t.fallback, now))
	}
	for _, host := range slices.Sorted(maps.Keys(t.hosts)) {
		hosts = append(hosts, c.statusOf(t.hosts[host], now))
	}
	return hosts
}

// HostStatus returns the status of a host as an Ingress names it, and false if none does.
func (c *Controller) HostStatus(host string) (HostStatus, bool) {
	e, ok := c.table.Load().hosts[host]
	if !ok {
		return HostStatus{}, false
	}
	return c.statusOf(e, time.Now()), true
}

func (c *Controller) statusOf(e *entry, now time.Time) HostStatus {
	status := HostStatus{
		Host: e.host, Ingress: e.ingress, Secret: e.secret, Certificate: e.certificate, Err: e.err, Ignored: e.ignored,
	}
	if e.err != nil {
		return status
	}
	if status.Err = e.certificate.checkTime(now); status.Err != nil {
		return status
	}
	secret, _ := c.secrets.Status(e.secret.Namespace, e.secret.Name)
	var cause error
	switch {
	case secret.Failures > 0: // the cause of the wait for the next attempt
		cause = secret.LastError
	case !secret.NotUpdatedSince.IsZero(): // else a stream that has ended is opened again in a moment
		cause = secret.Waiting
	}
	if cause != nil {
		status.Err = fmt.Errorf("the API server last confirmed Secret %q at %s: %w", e.secret, secret.LastContact.Format(time.RFC3339), cause)
	}
	return status
}

// Changed returns a channel that is closed when the certificates may have changed. To wait for a status, call Changed
// before Status: a change between the two is not missed.
func (c *Controller) Changed() <-chan struct{} { return c.table.Load().replaced }

// Counts says how many handshakes were answered with what.
type Counts struct {
	// Presented counts those that got the certificate of an Ingress, Default those that got the default certificate,
	// and Refused those that got the alert unrecognized_name.
	Presented, Default, Refused uint64
}

// Counts returns the counts since New.
func (c *Controller) Counts() Counts {
	return Counts{c.counters.presented.Load(), c.counters.defaults.Load(), c.counters.refused.Load()}
}

type counters struct{ presented, defaults, refused atomic.Uint64 }

func (c *counters) count(certificate *Certificate, ofIngress bool) {
	switch {
	case certificate == nil:
		c.refused.Add(1)
	case ofIngress:
		c.presented.Add(1)
	default:
		c.defaults.Add(1)
	}
}
