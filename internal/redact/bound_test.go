// SPDX-License-Identifier: Apache-2.0

package redact_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"
	"weak"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/internal/redact"
)

// long is an error with a text that is a megabyte long.
type long struct{ text *[1 << 20]byte }

func (l *long) Error() string { return string(l.text[:]) }

func newLong() *long {
	l := &long{new([1 << 20]byte)}
	for i := range l.text {
		l.text[i] = 'x'
	}
	return l
}

// around are errors with a long one in them. Each wraps io.ErrUnexpectedEOF, too.
var around = map[string]func(l *long) error{
	"unknown":           func(l *long) error { return errors.Join(l, io.ErrUnexpectedEOF) },
	"loggable":          func(l *long) error { return redact.Loggable(fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, l)) },
	"request":           func(l *long) error { return request(fmt.Errorf("%w, after %w", io.ErrUnexpectedEOF, l)) },
	"with a short text": func(l *long) error { return request(silent{errors.Join(l, io.ErrUnexpectedEOF)}) },
	"status": func(l *long) error {
		return fmt.Errorf("%w: %w: %w", io.ErrUnexpectedEOF, l, apierrors.NewUnauthorized("expired"))
	},
}

// silent wraps an error, and says nothing of it.
type silent struct{ error }

func (silent) Error() string   { return "silent" }
func (s silent) Unwrap() error { return s.error }

// An error keeps nothing of one with a long text. What is asked of it is still found.
func TestErrorKeepsNoLongText(t *testing.T) {
	for name, wrap := range around {
		for how, shorten := range map[string]func(error) error{"Error": redact.Error, "Bound": redact.Bound} {
			l := newLong()
			text := weak.Make(l.text)
			err := shorten(wrap(l))
			l = nil
			runtime.GC()
			runtime.GC()
			if text.Value() != nil {
				t.Errorf("%s, %s: got the long text in memory, want it gone", name, how)
			}
			if !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.Canceled) {
				t.Errorf("%s, %s: errors.Is: got %v for what it wraps, want true, and false for another", name, how, errors.Is(err, io.ErrUnexpectedEOF))
			}
			if name == "status" && !apierrors.IsUnauthorized(err) {
				t.Errorf("%s, %s: got %v, want a 401", name, how, err)
			}
			if len(err.Error()) > 5000 {
				t.Errorf("%s, %s: got a text of %d bytes", name, how, len(err.Error()))
			}
			runtime.KeepAlive(err)
		}
	}
}

// Errors with equal long texts share one.
func TestErrorsShareTheirText(t *testing.T) {
	for name, newError := range map[string]func() error{
		"status":   func() error { return apierrors.NewUnauthorized(strings.Repeat("no ", 1000)) },
		"loggable": func() error { return redact.Loggable(errors.New(strings.Repeat("no ", 10000))) },
	} {
		first, second := redact.Error(newError()), redact.Error(newError())
		a, b := first.Error(), second.Error()
		var status, other apierrors.APIStatus
		if errors.As(first, &status) && errors.As(second, &other) && unsafe.StringData(status.Status().Message) != unsafe.StringData(other.Status().Message) {
			t.Errorf("%s: got two copies of the message, want one", name)
		}
		if unsafe.StringData(a) != unsafe.StringData(b) {
			t.Errorf("%s: got two copies of %d bytes, want one", name, len(a))
		}
	}
}

// Of a status with fields of any length, what decides how it is treated stays, and the rest is bounded.
func TestErrorBoundsStatus(t *testing.T) {
	text := strings.Repeat("long ", 1<<16)
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: text, APIVersion: text}, ListMeta: metav1.ListMeta{Continue: text},
		Status: text, Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout, Message: text,
		Details: &metav1.StatusDetails{Name: text, Group: text, Kind: text, UID: "u", RetryAfterSeconds: 7,
			Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: text, Field: text}}},
	}
	for range 1000 {
		status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{Type: metav1.CauseType(text)})
	}
	err := redact.Error(&apierrors.StatusError{ErrStatus: status})
	var got apierrors.APIStatus
	if !errors.As(err, &got) || !apierrors.IsTimeout(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		t.Fatalf("got %v, want the status with its reason and cause", err)
	}
	if seconds, _ := apierrors.SuggestsClientDelay(err); seconds != 7 || got.Status().Code != http.StatusGatewayTimeout || got.Status().Details.UID != "u" {
		t.Errorf("got %+.200v, want the code, the UID and Retry-After", got.Status())
	}
	if size := len(fmt.Sprintf("%+v", got.Status())); size > 20<<10 {
		t.Errorf("got a status of %d bytes", size)
	}
	if len(status.Details.Causes) != 1001 || status.Details.Name != text {
		t.Error("the status of the server was changed")
	}
	small := apierrors.NewForbidden(resource, "tls", errors.New("no"))
	if got := redact.Error(small); got != error(small) { //nolint:errorlint // the same one
		t.Errorf("a small status: got %#v, want it as it is", got)
	}
}

// What is not long is as it was.
func TestBoundKeepsShortErrors(t *testing.T) {
	for _, err := range []error{nil, io.EOF, request(syscall.ECONNRESET), apierrors.NewUnauthorized("expired"), redact.Error(newLong()), redact.Bound(newLong())} {
		if got := redact.Bound(err); got != err { //nolint:errorlint // the same one
			t.Errorf("got %v, want %v", got, err)
		}
	}
}
