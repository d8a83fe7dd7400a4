// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"bufio"
	"encoding/json"
	"strconv"
	"time"
)

// encode writes the report with objects as package encoding/json does. It writes the objects itself: with 100,000 of
// them reflection would take most of the time. An error of a write is that of to.Flush.
func (r Report) encode(to *bufio.Writer, objects []*Object) error {
	head, err := json.Marshal(r.Time)
	if err != nil {
		return err
	}
	rest := r
	rest.Objects = []Object{}
	tail, err := json.Marshal(rest)
	if err != nil {
		return err
	}
	empty := append(append([]byte(`{"time":`), head...), `,"objects":[`...)
	_, _ = to.Write(empty)
	for i, object := range objects {
		b := to.AvailableBuffer()
		if i > 0 {
			b = append(b, ',')
		}
		_, _ = to.Write(object.appendJSON(b))
	}
	_, _ = to.Write(append(tail[len(empty):], '\n'))
	return nil
}

// appendJSON appends the object to b.
func (o *Object) appendJSON(b []byte) []byte {
	w := jsonWriter{append(b, '{')}
	w.text("resource", o.Resource)
	w.optional("namespace", o.Namespace)
	w.text("name", o.Name)
	w.text("phase", string(o.Phase))
	w.optional("problem", string(o.Problem))
	w.optional("cause", o.Cause)
	w.text("stream", string(o.Stream))
	w.optional("reason", string(o.Reason))
	w.flag("parked", o.Parked)
	w.flag("synced", o.Synced)
	w.flag("exists", o.Exists)
	w.optional("uid", string(o.UID))
	w.optional("resourceVersion", o.ResourceVersion)
	w.optionalTime("lastContact", o.LastContact)
	if o.AgeSeconds != nil {
		w.number("ageSeconds", *o.AgeSeconds)
	}
	w.optionalTime("notUpdatedSince", o.NotUpdatedSince)
	w.optionalTime("changedAt", o.ChangedAt)
	w.optionalTime("nextRead", o.NextRead)
	w.optional("waiting", o.Waiting)
	w.optionalTime("askedAt", o.AskedAt)
	w.number("failures", float64(o.Failures))
	w.optional("lastError", o.LastError)
	w.optionalTime("lastErrorTime", o.LastErrorTime)
	w.name("owners")
	w.b = append(w.b, '[')
	for i, owner := range o.Owners {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, '{')
		w.optional("kind", owner.Kind)
		w.optional("namespace", owner.Namespace)
		w.optional("name", owner.Name)
		w.optional("uid", string(owner.UID))
		w.b = append(w.b, '}')
	}
	return append(w.b, ']', '}')
}

// jsonWriter appends members of an object.
type jsonWriter struct{ b []byte }

// name appends a name, which needs no escape.
func (w *jsonWriter) name(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
}

func (w *jsonWriter) text(name, value string) {
	w.name(name)
	if !isPlain(value) {
		quoted, _ := json.Marshal(value) // a string has no error
		w.b = append(w.b, quoted...)
		return
	}
	w.b = append(w.b, '"')
	w.b = append(w.b, value...)
	w.b = append(w.b, '"')
}

// isPlain reports whether a string is the same in JSON.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

func (w *jsonWriter) optional(name, value string) {
	if value != "" {
		w.text(name, value)
	}
}

func (w *jsonWriter) flag(name string, value bool) {
	w.name(name)
	w.b = strconv.AppendBool(w.b, value)
}

// number appends a number. One that is 0, or from 10^-6 to 10^21, is written as by encoding/json.
func (w *jsonWriter) number(name string, value float64) {
	w.name(name)
	w.b = strconv.AppendFloat(w.b, value, 'f', -1, 64)
}

func (w *jsonWriter) optionalTime(name string, value time.Time) {
	if value.IsZero() {
		return
	}
	w.name(name)
	w.b = append(w.b, '"')
	w.b = value.AppendFormat(w.b, time.RFC3339Nano)
	w.b = append(w.b, '"')
}
