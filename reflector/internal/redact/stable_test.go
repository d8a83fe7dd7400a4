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

	"github.com/refwatch/refwatch/reflector/internal/redact"
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
		"another object":         {status("an error on the server has prevented the request from succeeding (get secrets other)"), "an error on the server has prevented the request from succeeding (get secrets)"},
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
