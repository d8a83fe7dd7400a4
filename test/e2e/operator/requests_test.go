// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/refwatch/refwatch/test/e2e"
)

// requestCounts counts requests for Secrets by what they ask for, such as "watch of all".
type requestCounts map[string]int

// String returns the counts, in the order of the names.
func (c requestCounts) String() string {
	var parts []string
	for _, shape := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, fmt.Sprintf("%d %s", c[shape], shape))
	}
	return strings.Join(parts, ", ")
}

// countRequests counts the requests of the operator for Secrets since a time, by the audit log.
func (r *rig) countRequests(since time.Time) requestCounts {
	r.Helper()
	counts, seen := requestCounts{}, map[string]bool{}
	r.must(r.allRequestsOf(func(event e2e.AuditEvent, u *url.URL) {
		if event.RequestReceivedTimestamp.Before(since) || seen[event.AuditID] {
			return
		}
		seen[event.AuditID] = true // the stages of a watch are two events
		if shape, ok := shapeOf(event, u); ok {
			counts[shape]++
		}
	}))
	return counts
}

// shapeOf returns what a request for Secrets asks for.
func shapeOf(event e2e.AuditEvent, u *url.URL) (shape string, ok bool) {
	before, after, ok := strings.Cut(u.Path, "/secrets")
	if !ok || !strings.HasPrefix(before, "/api/v1") || after != "" && after[0] != '/' {
		return "", false
	}
	query := u.Query()
	switch {
	case event.Verb != "list" && event.Verb != "watch":
		shape = event.Verb
	case strings.HasPrefix(query.Get("fieldSelector"), "metadata.name="):
		shape = event.Verb + " by name"
	case query.Has("labelSelector"):
		shape = event.Verb + " by label"
	case before == "/api/v1":
		shape = event.Verb + " of all"
	default:
		shape = event.Verb + " of a namespace"
	}
	if event.ResponseStatus.Code == http.StatusForbidden {
		shape += ", refused"
	}
	return shape, true
}
