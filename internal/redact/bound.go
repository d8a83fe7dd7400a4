// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"reflect"
	"strconv"
	"strings"
	"unique"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Bounds what an error keeps. A server, or a function of the program, may give each of many objects an error of a MiB,
// and each is kept until the next one.

const (
	// longestText is how many bytes of a text are shown and kept. A refusal of kube-apiserver has some hundred.
	longestText = 4 << 10
	// longestField is the same for a part of a status: the name of an object has 253 bytes at most.
	longestField = 512
	// mostCauses is how many causes of a status are kept.
	mostCauses = 4
	// sharedText is the length above which equal messages of statuses share their memory.
	sharedText = 512
	// cut ends a text that goes on.
	cut = "… (cut)"
)

// printable returns text, at most [longestText] bytes of it, with escape sequences of Go in place of all that cannot be
// printed: such characters could control a terminal, or begin a line of a log.
func printable(text string) string { return printableUpTo(text, longestText) }

func printableUpTo(text string, most int) string {
	var b strings.Builder
	fits := 0 // how much of b may precede cut
	for _, r := range text {
		piece := string(r)
		if !strconv.IsPrint(r) {
			piece = strings.Trim(strconv.QuoteRune(r), "'")
		}
		if b.Len()+len(piece) > most {
			return b.String()[:fits] + cut
		}
		if b.WriteString(piece); b.Len()+len(cut) <= most {
			fits = b.Len()
		}
	}
	return b.String()
}

// bounded replaces an error whose text is long.
type bounded struct {
	text  unique.Handle[string]
	parts []error // of the error, whose texts are not
}

func (b *bounded) Error() string   { return b.text.Value() }
func (b *bounded) Unwrap() []error { return b.parts }

// Bound returns err, or, if its text or that of an error that it wraps has many KiB, an error with the beginning of its
// text. errors.Is and errors.As still find what err wraps and is not as long.
func Bound(err error) error {
	if err == nil {
		return nil
	}
	parts, whole := short(err)
	if whole {
		return err
	}
	return &bounded{unique.Make(printable(err.Error())), parts}
}

// short returns the outermost parts of err that keep no long text, and whether that is err as a whole.
func short(err error) (parts []error, whole bool) {
	var wrapped []error
	// That of an error of Error, with what stands around it, is not long.
	whole = len(err.Error()) <= 2*longestText
	switch e := err.(type) { //nolint:errorlint // each error of the tree for itself
	case *hidden, *bounded:
		return []error{err}, true
	case apierrors.APIStatus:
		whole = whole && isShort(e.Status())
	case interface{ Unwrap() error }:
		wrapped = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		wrapped = e.Unwrap()
	}
	for _, inner := range wrapped {
		if inner == nil {
			continue
		}
		of, ok := short(inner)
		parts, whole = append(parts, of...), whole && ok
	}
	if whole {
		return []error{err}, true
	}
	return parts, false
}

func isShort(status metav1.Status) bool { return reflect.DeepEqual(boundStatus(status), status) }

// boundStatus returns a status with texts that are printable and bounded.
func boundStatus(status metav1.Status) metav1.Status {
	status.Message = unique.Make(printable(status.Message)).Value()
	status.Reason, status.Status = metav1.StatusReason(field(string(status.Reason))), field(status.Status)
	status.Kind, status.APIVersion = field(status.Kind), field(status.APIVersion)
	if len(status.ResourceVersion)+len(status.Continue) > longestField {
		status.ListMeta = metav1.ListMeta{}
	}
	status.SelfLink = "" //nolint:staticcheck // deprecated, and a server may send one of any length
	if status.Details == nil {
		return status
	}
	d := *status.Details
	d.Name, d.Group, d.Kind, d.UID = field(d.Name), field(d.Group), field(d.Kind), types.UID(field(string(d.UID)))
	if d.Causes = nil; len(status.Details.Causes) > 0 {
		kept := status.Details.Causes[:min(len(status.Details.Causes), mostCauses)]
		d.Causes = make([]metav1.StatusCause, 0, len(kept))
		for _, cause := range kept {
			d.Causes = append(d.Causes, metav1.StatusCause{
				Type: metav1.CauseType(field(string(cause.Type))), Message: field(cause.Message), Field: field(cause.Field),
			})
		}
	}
	status.Details = &d
	return status
}

func field(text string) string { return printableUpTo(text, longestField) }
