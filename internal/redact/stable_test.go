// SPDX-License-Identifier: Apache-2.0

package redact_test

import (
	"errors"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/internal/redact"
)

// The text of an error does not change while the cause lasts. The fields keep what is left out.
func TestErrorIsStable(t *testing.T) {
	read := &net.OpError{
		Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv6loopback, Port: 54321}, Addr: &net.TCPAddr{IP: net.IPv6loopback, Port: 443},
		Err: os.NewSyscallError("read", syscall.ECONNRESET),
	}
	status := func(message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError, Message: message}}
	}
	tests := map[string]struct {
		err  error
		want string
	}{
		"a local port":           {&url.Error{Op: "Get", URL: "https://server/x", Err: read}, `Get "https://server": read tcp [::1]:443: read: connection reset by peer`},
		"an expired certificate": {redact.Loggable(errors.New("x509: certificate has expired or is not yet valid: current time 2026-01-02T03:04:05Z is after 2025-01-01T00:00:00Z")), "x509: certificate has expired or is not yet valid: the current time is after 2025-01-01T00:00:00Z"},
		"a port of the server":   {status("read tcp 10.0.0.1:38412->10.0.0.1:2379: connection reset"), "read tcp 10.0.0.1:2379: connection reset"},
		"versions":               {status("Too large resource version: 12, current: 11"), "Too large resource version"},
		"an old version":         {status("too old resource version: 12 (15)"), "too old resource version"},
		"another object":         {status("an error on the server has prevented the request from succeeding (get secrets other)"), "an error on the server has prevented the request from succeeding"},
		"another kind":           {status("the server has asked for the client to provide credentials (get configmaps)"), "the server has asked for the client to provide credentials"},
		"the id of a request":    {status("webhook failed, request id: 5f3-a after 0.25s (9f8b8c1e-0000-4000-8000-000000000001)"), "webhook failed, request id: … after … (…)"},
		"a trace in quotes":      {status(`refused, Trace-ID="4bf92f35"`), `refused, Trace-ID="…"`},
		"a name with a number":   {status(`secrets "tls-2.5" is forbidden: User "system:node:10.0.0.1:80" cannot watch`), `secrets "tls-2.5" is forbidden: User "system:node:10.0.0.1:80" cannot watch`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := redact.Error(test.err)
			if got.Error() != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if again := redact.Error(got); again.Error() != test.want {
				t.Errorf("again: got %q, want %q", again, test.want)
			}
			if kept := (*net.OpError)(nil); errors.As(test.err, &kept) && (!errors.As(got, &kept) || kept.Source == nil) {
				t.Errorf("got %#v, want the source in a field", kept)
			}
			var kept, before apierrors.APIStatus
			if errors.As(test.err, &before) && (!errors.As(got, &kept) || kept.Status().Message != before.Status().Message) {
				t.Errorf("got %v, want the message of the server in a field", got)
			}
		})
	}
}

// What says who lacks which right, or what a limit is, is no part that differs each time. Refusals of two users differ.
func TestErrorKeepsTheCause(t *testing.T) {
	const user = "9f8b8c1e-0000-4000-8000-000000000001"
	for name, text := range map[string]string{
		"a user of AKS":             `secrets "tls" is forbidden: User "` + user + `" cannot watch resource "secrets" in the namespace "shop"`,
		"a user with a client id":   `User "request-id: ` + user + `" cannot watch`,
		"a namespace":               `User "system:serviceaccount:trace-id:agent1" cannot watch`,
		"an escaped quote":          `User "a\" request id: 17" cannot watch`,
		"a user that seems a text":  `User "stream ID 17; LastStreamID=3, resource version: 4, current: 5" cannot watch`,
		"a user that seems a time":  `User "after 1.5s" cannot watch`,
		"a user that seems a port":  `User "10.0.0.1:80->b" cannot watch`,
		"a name that is a UID":      `secrets "` + user + `" not found`,
		"a name that is not quoted": `no rights for ` + user + ` in the vault`,
		"a UUID within the text":    `user (` + user + `) may not read`,
		"a limit":                   "the request has a limit 1.5s",
		"a name in parentheses":     "refused by the policy of the team (get secrets tls)",
		"no id":                     "a request id is missing",
	} {
		err := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: text}}
		if got := redact.Error(err).Error(); got != text {
			t.Errorf("%s: got %q, want %q", name, got, text)
		}
	}
}
