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

// AuditEvent is an entry of the API server's audit log: one request at one stage. It has those fields of
// audit.k8s.io/v1 Event that tests use. https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/
type AuditEvent struct {
	// AuditID identifies the request. All its stages have the same.
	AuditID string
	// Stage is ResponseStarted when a watch starts, ResponseComplete when a request ends, or Panic.
	Stage string
	// Verb is the Kubernetes verb, such as "list" or "watch".
	Verb string
	// RequestURI is the path and query that the client sent.
	RequestURI string
	// User is the authenticated user. It is empty after a 401.
	User struct {
		Username string
		Groups   []string
	}
	UserAgent string
	// ResponseStatus has the HTTP status, or 0 if there is none yet.
	ResponseStatus struct{ Code int }
	// RequestReceivedTimestamp is when the server received the request, StageTimestamp when it reached this stage.
	RequestReceivedTimestamp, StageTimestamp time.Time
}

// AuditEvents returns the API server's audit log, oldest first, including entries from before a restart. The end of a
// request may be logged a moment after its response has arrived.
func (c *Cluster) AuditEvents() ([]AuditEvent, error) {
	log, err := os.ReadFile(c.path("audit.log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the file is created at the first request
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	return parseAudit(log)
}

// parseAudit parses one event per line. The last line may be incomplete, because it is being written or because the
// server was killed. After a restart the next event is on the same line.
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
