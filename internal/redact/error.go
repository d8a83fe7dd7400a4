// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unique"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// loggable is an error that [Loggable] has marked.
type loggable struct{ error }

// Loggable marks an error whose text holds no object data: [Error] does not hide it.
func Loggable(err error) error {
	if err == nil {
		return nil
	}
	return loggable{err}
}

func (l loggable) Unwrap() error { return l.error }

// Marked returns the part of err that [Loggable] has marked, or nil.
func Marked(err error) error {
	var marked loggable
	if errors.As(err, &marked) {
		return marked
	}
	return nil
}

// hidden replaces an error whose text may quote an object, cannot be printed, or differs each time.
type hidden struct {
	text  unique.Handle[string]   // what is shown: errors with equal texts share it
	shown error                   // nothing in it is hidden; may be nil
	is    func(target error) bool // what errors.Is finds beside shown; a function: no verb of fmt prints what it refers to
}

func (h *hidden) Error() string        { return h.text.Value() }
func (h *hidden) Is(target error) bool { return h.is != nil && h.is(target) }
func (h *hidden) Unwrap() error        { return h.shown }

// hide returns shown in place of err, of which it keeps no long text.
func hide(err, shown error) error {
	parts, _ := short(err)
	is := func(target error) bool {
		return slices.ContainsFunc(parts, func(part error) bool { return errors.Is(part, target) })
	}
	return &hidden{unique.Make(stable(printable(shown.Error()))), shown, is}
}

// Error returns err, or a replacement if its text may quote an object: decoders
// quote what they cannot decode ("Object 'Kind' is missing in ..."). An API status stays, and so does the part of err
// that [visible] knows: the failure of a request without an answer is shown whole. The text around that part is
// dropped. What is shown is printable, and has at most [longestText] bytes. What differs each time for the same cause
// is left out: see stable.go.
func Error(err error) error {
	var (
		status apierrors.APIStatus
		done   *hidden
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &done):
		return done
	case errors.As(err, &status):
		shown, ok := status.(error) // without the text around it
		if !ok {
			shown = err
		}
		shown = statusError(shown, status.Status())
		if text := shown.Error(); shown == err && stable(text) == text { //nolint:errorlint // is it the same one?
			return err
		}
		return hide(err, shown)
	}
	shown := visible(err)
	if shown == nil {
		shown = textHidden(err)
	}
	return hide(err, shown)
}

// textHidden names the type of the error that err wraps, which says the most.
func textHidden(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return fmt.Errorf("an error of type %T, whose text is hidden because it may quote an object", err)
		}
		err = inner
	}
}

// statusError hides the text of a status that client-go built from something
// else: an event that it could not decode, or an answer that is no status. It escapes and bounds the
// texts of others.
func statusError(err error, status metav1.Status) error {
	if !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) && !IsDecoding(err) {
		bounded := boundStatus(status)
		if len(status.Message) <= sharedText && reflect.DeepEqual(bounded, status) {
			return err
		}
		return &apierrors.StatusError{ErrStatus: bounded}
	}
	status = boundStatus(status)
	clean := metav1.Status{
		Status: status.Status, Code: status.Code, Reason: status.Reason,
		Message: fmt.Sprintf("%d %s, with a text that is hidden because it may quote an object", status.Code, http.StatusText(int(status.Code))),
		Details: &metav1.StatusDetails{RetryAfterSeconds: status.Details.RetryAfterSeconds},
	}
	for _, cause := range status.Details.Causes {
		shown := metav1.StatusCause{Type: cause.Type}
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			shown.Message = answerType(cause.Message)
		}
		clean.Message = cmp.Or(known(shown.Message), clean.Message)
		clean.Details.Causes = append(clean.Details.Causes, shown)
	}
	return &apierrors.StatusError{ErrStatus: clean}
}

// pageNotFound is how kube-apiserver, and other servers written in Go, answer for a path
// that they do not serve.
const pageNotFound = "404 page not found"

// wantsHTTPS are parts of how Go's servers and nginx answer a request of HTTP on a port of HTTPS.
var wantsHTTPS = []string{"Client sent an HTTP request to an HTTPS server", "The plain HTTP request was sent to HTTPS port"}

// known returns the constant that says what an answer says, or an empty text.
func known(answer string) string {
	if answer == pageNotFound {
		return pageNotFound
	}
	if i := slices.IndexFunc(wantsHTTPS, func(part string) bool { return strings.Contains(answer, part) }); i >= 0 {
		return wantsHTTPS[i]
	}
	return ""
}

// answerType returns the type of an answer that is no status, such as text/html, or what is [known] of it. It is empty
// for an answer that is no text: client-go keeps only texts.
func answerType(text string) string {
	if text == "unknown" {
		return ""
	}
	kind, _, _ := strings.Cut(http.DetectContentType([]byte(text)), ";")
	return cmp.Or(known(text), kind)
}

// IsDecoding reports whether err is what client-go's StreamWatcher reports when it
// cannot decode an event. It reports some lost connections the same way.
func IsDecoding(err error) bool { return apierrors.HasStatusCause(err, "ClientWatchDecoding") }
