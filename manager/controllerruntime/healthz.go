// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
)

// Statuses yields the status of each referenced object. A [Cache], a [Store], a
// manager.Manager and an objectcache.Store do.
type Statuses interface {
	Statuses() iter.Seq[objectcache.Status]
}

// HealthzOptions changes when a check of [Healthz] fails. The zero value is valid.
type HealthzOptions struct {
	// Grace is for how long checks must find that no object can be read before one
	// fails. Default: 1 minute. With a negative value, none fails.
	Grace time.Duration
}

const defaultHealthGrace = time.Minute

// Healthz returns a check for AddReadyzCheck of controller-runtime's manager:
//
//	secrets := mgr.GetCache().(*controllerruntime.Cache)
//	err := mgr.AddReadyzCheck("secrets", controllerruntime.Healthz(secrets, controllerruntime.HealthzOptions{}))
//
// It fails if no object can be read because the server does not answer, answers with
// errors, or does not accept the credentials, or because a proxy answers in its place, and
// all checks in the last Grace have found the same. An object that memory serves meanwhile
// cannot be read either. The error has the cause for one object.
// An object that the server refuses (403), or whose kind it does not serve, does not
// count, and nor does one object that fails while others can be read: one bad Secret makes
// no program unready. One that is absent for good, without a request (objectcache.ReasonInvalidName or
// ReasonNotSelected), does not count either. The check is nil while nothing is referenced.
//
// It sends no request. Do not use it as a liveness check: a restart mends none of this,
// and drops what is served from memory. With a nil source it always fails.
func Healthz(source Statuses, options HealthzOptions) healthz.Checker {
	if isNil(source) {
		return func(*http.Request) error {
			return errors.New("the source of the health check is nil: pass a Cache, a manager or a store to Healthz")
		}
	}
	check := &healthCheck{source: source, grace: cmp.Or(options.Grace, defaultHealthGrace)}
	return check.check
}

type healthCheck struct {
	source Statuses
	grace  time.Duration

	mu    sync.Mutex
	since time.Time // of the first of the checks in a row that found no readable object
}

func (h *healthCheck) check(*http.Request) error {
	key, cause := h.findCause()
	h.mu.Lock()
	defer h.mu.Unlock()
	if cause == nil {
		h.since = time.Time{}
		return nil
	}
	if h.since.IsZero() {
		h.since = time.Now()
	}
	if unread := time.Since(h.since); h.grace >= 0 && unread >= h.grace {
		return fmt.Errorf("no referenced object can be read, such as %s: %w", key, cause)
	}
	return nil
}

// findCause returns why one of the objects cannot be read, nil if any object can be read. It is the first one by name,
// of those that fail if there are any: the error is the same as long as the cause is.
func (h *healthCheck) findCause() (key string, cause error) {
	failing := false
	for status := range h.source.Statuses() {
		of := status.Key.String()
		isFirst := cause == nil || of < key
		missed := !status.NotUpdatedSince.IsZero()
		switch phase := status.Phase; {
		case status.Reason == objectcache.ReasonInvalidName, status.Reason == objectcache.ReasonNotSelected: // not read at all
		case phase == objectcache.PhasePending, phase == objectcache.PhaseIdle, phase == objectcache.PhaseStopped: // not read now
		case phase == objectcache.PhaseFailing, missed && status.Failures > 0:
			if notServed := (*resource.NotServedError)(nil); apierrors.IsForbidden(status.LastError) ||
				errors.As(status.LastError, &notServed) && !notServed.IsForeign() {
				continue
			}
			if isFirst || !failing {
				key, cause, failing = of, status.LastError, true
			}
		case phase == objectcache.PhaseSyncing, missed:
			if isFirst && !failing {
				key, cause = of, cmp.Or(status.Waiting, objectcache.ErrNoAnswer)
			}
		default:
			return "", nil
		}
	}
	return key, cause
}
