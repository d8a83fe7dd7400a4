// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errPanic is the cause when a source or a store panicked.
var errPanic = errors.New("panic")

// opaque is an error in place of another one, whose text may quote an object.
// What that one is can still be asked with errors.Is.
type opaque struct {
	text string
	is   func(target error) bool // a function: no verb of fmt prints what it refers to
}

func (o *opaque) Error() string        { return o.text }
func (o *opaque) Is(target error) bool { return o.is(target) }

// ErrLoggable is for sources: the text of an error that wraps it holds no object
// data, and is not hidden.
var ErrLoggable = errors.New("source")

// harmless returns an error of a source as it may be logged and handed on.
// Decoders quote what they cannot decode ("Object 'Kind' is missing in ..."),
// and their errors are of no type that tells. So an error keeps its text only if
// it is of a kind that cannot quote an object: an API status, one of the network
// or of a context, io.EOF, or one that wraps ErrLoggable.
func harmless(err error) error {
	var (
		status  apierrors.APIStatus
		request *url.Error
		network net.Error
	)
	switch {
	case errors.As(err, &status):
		return harmlessStatus(err, status.Status())
	case err == nil, errors.Is(err, ErrLoggable),
		slices.Contains([]error{io.EOF, io.ErrUnexpectedEOF, context.Canceled, context.DeadlineExceeded}, err):
		return err
	case errors.As(err, &request): // without the text around it
		return request
	case errors.As(err, &network):
		return network
	}
	return &opaque{
		text: fmt.Sprintf("an error of type %T, whose text is hidden because it may quote an object", err),
		is:   func(target error) bool { return errors.Is(err, target) },
	}
}

// harmlessStatus hides the text of a status that client-go made of something
// else: of an event that it could not decode, or of a page that is no status.
func harmlessStatus(err error, status metav1.Status) error {
	if !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) && !isDecoding(err) {
		return err
	}
	clean := metav1.Status{
		Status: status.Status, Code: status.Code, Reason: status.Reason,
		Message: fmt.Sprintf("%d %s, with a text that is hidden because it may quote an object", status.Code, http.StatusText(int(status.Code))),
		Details: &metav1.StatusDetails{RetryAfterSeconds: status.Details.RetryAfterSeconds},
	}
	for _, cause := range status.Details.Causes {
		clean.Details.Causes = append(clean.Details.Causes, metav1.StatusCause{Type: cause.Type})
	}
	return &apierrors.StatusError{ErrStatus: clean}
}

// isDecoding recognises what client-go's StreamWatcher reports when it cannot
// decode an event, or has lost the connection in one of the less usual ways.
func isDecoding(err error) bool { return apierrors.HasStatusCause(err, "ClientWatchDecoding") }

// recovered makes a panic of somebody else's code an error. It is to be
// deferred. The value may hold an object: its type is all that is kept of it.
func recovered(err *error) {
	if value := recover(); value != nil {
		*err = fmt.Errorf("%w: a %T in %s", errPanic, value, panicker())
	}
}

// panicker is the function that panicked, for a deferred function called by
// recovered's caller.
func panicker() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for panicked := false; ; {
		frame, more := frames.Next()
		switch {
		case frame.Function == "runtime.gopanic":
			panicked = true
		case panicked && !strings.HasPrefix(frame.Function, "runtime."):
			return fmt.Sprintf("%s, line %d", frame.Function, frame.Line)
		case !more:
			return "a function that is not known"
		}
	}
}
