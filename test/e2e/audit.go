// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// AuditEvent is what the API server logged about a request at one stage: the fields of audit.k8s.io/v1 Event that
// tests ask about. https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/
type AuditEvent struct {
	// AuditID is the request's: its stages share it.
	AuditID string
	// Stage is ResponseStarted for a watch that has begun, ResponseComplete for a request that has ended, and
	// Panic.
	Stage string
	// Verb is Kubernetes': "list" and "watch" are both GET.
	Verb string
	// RequestURI is path and query, as the client sent them.
	RequestURI string
	// User is who asked, as far as is known; it is empty after a 401.
	User struct {
		Username string
		Groups   []string
	}
	UserAgent string
	// ResponseStatus has the HTTP status, 0 if there is none yet.
	ResponseStatus struct{ Code int }
	// RequestReceivedTimestamp and StageTimestamp are when the request came and when this stage was reached.
	RequestReceivedTimestamp, StageTimestamp time.Time
}

// AuditEvents returns what the API server has logged so far, oldest first, across its restarts. The end of a
// request may be logged a moment after its response has arrived.
func (c *Cluster) AuditEvents() ([]AuditEvent, error) {
	log, err := os.ReadFile(c.path("audit.log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it is not there before the first request
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	return parseAudit(log)
}

// parseAudit reads an event per line. A line without an end is still being written, or never will be: its server
// was killed. If that one was restarted, the next event follows on the same line.
func parseAudit(log []byte) ([]AuditEvent, error) {
	var events []AuditEvent
	for line := range bytes.Lines(log) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var event AuditEvent
		err := json.Unmarshal(line, &event)
		if start := bytes.LastIndex(line, []byte(`{"kind":"Event"`)); err != nil && start > 0 {
			err = json.Unmarshal(line[start:], &event)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the audit log, after %d events: %w", len(events), err)
		}
		events = append(events, event)
	}
	return events, nil
}
