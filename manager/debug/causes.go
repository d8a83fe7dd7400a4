// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/objectcache"
)

// Cause is what some objects with a problem have in common.
type Cause struct {
	// Key selects the objects of the cause in a query.
	Key string `json:"key"`
	// Objects is how many objects have it.
	Objects int     `json:"objects"`
	Problem Problem `json:"problem"`
	// Reason is that of the server's answer, such as "Forbidden"; empty if there was none.
	Reason metav1.StatusReason `json:"reason,omitempty"`
	// Text is the error of each of the objects, or what it waits for, with "…" in place of what differs.
	Text string `json:"text"`
}

// causeOf returns the cause of an object with a problem.
func causeOf(problem Problem, status *objectcache.Status) Cause {
	cause := Cause{Objects: 1, Problem: problem}
	switch {
	case problem == Absent:
		cause.Text = absenceText(status.Reason)
	case status.LastError != nil && status.Failures > 0:
		cause.Reason = apierrors.ReasonForError(status.LastError)
		cause.Text = withoutName(status.LastError.Error(), status.Key.Name)
	case status.Waiting != nil:
		cause.Text = status.Waiting.Error()
	default:
		cause.Text = reflector.ErrNoAnswer.Error()
	}
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s\n%s\n%s", cause.Problem, cause.Reason, cause.Text)
	cause.Key = fmt.Sprintf("%016x", hash.Sum64())
	return cause
}

// absenceText says why there is no object.
func absenceText(reason objectcache.Reason) string {
	switch reason {
	case objectcache.ReasonInvalidName:
		return "no object can have the name"
	case objectcache.ReasonNotSelected:
		return "the field selector of the resource excludes it"
	}
	return "not on the server"
}

// withoutName returns an error's text with "…" in place of the name of the object.
func withoutName(text, name string) string {
	var b strings.Builder
	done := 0
	for name != "" {
		at := strings.Index(text[done:], name)
		if at < 0 {
			break
		}
		at += done
		end := at + len(name)
		b.WriteString(text[done:at])
		// The name is one in quotes, in a path, or in a field selector ("metadata.name%3Dtls").
		if (at == 0 || strings.IndexByte(`"/= D`, text[at-1]) >= 0) && (end == len(text) || strings.IndexByte(`"/?&,: `, text[end]) >= 0) {
			b.WriteString("…")
		} else {
			b.WriteString(name)
		}
		done = end
	}
	b.WriteString(text[done:])
	return b.String()
}

// causesOf returns the causes of the objects: those that need attention first, and then those of many objects.
func causesOf(causes map[string]*Cause) []Cause {
	all := []Cause{}
	for _, cause := range causes {
		all = append(all, *cause)
	}
	slices.SortFunc(all, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(rank(a.Problem), rank(b.Problem)), cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.Text, b.Text), cmp.Compare(a.Key, b.Key))
	})
	return all
}
