// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const auditLine = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"1","stage":"ResponseComplete",` +
	`"requestURI":"/api/v1/secrets?watch=1\u0026x","verb":"watch","user":{"username":"jo","groups":["a","b"]},` +
	`"userAgent":"curl","responseStatus":{"metadata":{},"code":403},` +
	`"requestReceivedTimestamp":"2026-01-02T03:04:05.000006Z","stageTimestamp":"2026-01-02T03:04:06.000000Z"}` + "\n"

func TestParseAudit(t *testing.T) {
	for name, test := range map[string]struct {
		log       string
		want      int
		wantError bool
	}{
		"empty":                              {log: ""},
		"one":                                {log: auditLine, want: 1},
		"two":                                {log: auditLine + auditLine, want: 2},
		"last line incomplete":               {log: auditLine + auditLine[:50], want: 1},
		"only an incomplete line":            {log: auditLine[:50]},
		"cut by a kill, then restarted":      {log: auditLine + auditLine[:50] + auditLine + auditLine, want: 3},
		"cut after one byte, then restarted": {log: auditLine[:1] + auditLine, want: 1},
		"no audit log":                       {log: auditLine + "hello\n", wantError: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseAudit([]byte(test.log))
			if (err != nil) != test.wantError {
				t.Fatalf("got error %v, want one: %v", err, test.wantError)
			}
			if len(got) != test.want {
				t.Errorf("got %d events, want %d", len(got), test.want)
			}
		})
	}
}

func TestParseAuditFields(t *testing.T) {
	events, err := parseAudit([]byte(auditLine))
	if err != nil || len(events) != 1 {
		t.Fatalf("got %v and %v, want one event", events, err)
	}
	got := events[0]
	for field, pair := range map[string][2]any{
		"audit ID":   {got.AuditID, "1"},
		"stage":      {got.Stage, "ResponseComplete"},
		"verb":       {got.Verb, "watch"},
		"URI":        {got.RequestURI, "/api/v1/secrets?watch=1&x"},
		"user":       {got.User.Username, "jo"},
		"groups":     {strings.Join(got.User.Groups, " "), "a b"},
		"user agent": {got.UserAgent, "curl"},
		"code":       {got.ResponseStatus.Code, 403},
		"received":   {got.RequestReceivedTimestamp, time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)},
		"stage time": {got.StageTimestamp, time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %v, want %v", field, pair[0], pair[1])
		}
	}
}

func TestAuditEventsWithoutALog(t *testing.T) {
	c := &Cluster{dir: t.TempDir()}
	if events, err := c.AuditEvents(); len(events) != 0 || err != nil {
		t.Errorf("before the first request: got events %v and error %v, want none", events, err)
	}
	if err := os.Mkdir(filepath.Join(c.dir, "audit.log"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AuditEvents(); err == nil {
		t.Error("unreadable log: got no error, want one")
	}
}

// The log has the user, the verb and the status of a request, and the start and end of a watch.
func testAudit(t *testing.T, c *Cluster) {
	client := Client(t, c.User("auditor"))
	if _, err := client.CoreV1().Secrets("default").Get(t.Context(), "x", metav1.GetOptions{}); err == nil {
		t.Fatal("got no error, want forbidden")
	}
	put(t, c, "audited", "1")
	w := startWatch(t, Client(t, c.User("auditor", mastersGroup)), "audited")
	find := func(verb, stage string, code int) func(context.Context) error {
		return func(context.Context) error {
			events, err := c.AuditEvents()
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(events, func(e AuditEvent) bool {
				return e.User.Username == "auditor" && e.Verb == verb && e.Stage == stage && e.ResponseStatus.Code == code
			}) {
				return fmt.Errorf("no %s of %s with %d among %d events", stage, verb, code, len(events))
			}
			return nil
		}
	}
	eventually(t, find("get", "ResponseComplete", 403))
	eventually(t, find("watch", "ResponseStarted", 200))
	if find("watch", "ResponseComplete", 200)(t.Context()) == nil {
		t.Error("got the end of a watch that is open")
	}
	w.Stop()
	eventually(t, find("watch", "ResponseComplete", 200))
	if err := find("get", "RequestReceived", 0)(t.Context()); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want no stage RequestReceived", err)
	}
}
