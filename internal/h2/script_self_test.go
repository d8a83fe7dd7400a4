// SPDX-License-Identifier: Apache-2.0

package h2

import "testing"

// A regular response: it shows how the tests of this suite are written.
func TestScript(t *testing.T) {
	forEachClient(t, func(t *testing.T, kind clientKind) {
		e := newExchange(t, kind)
		r := e.get("/a")
		id := e.request("/a")
		e.ok(id)
		e.data(id, "first ")
		e.endData(id, "last")
		e.wait()
		if got, want := r.end(), "regular"; got != want {
			t.Errorf("got end %q (%v), want %q", got, r.failure(), want)
		}
		if got, want := r.body(), "first last"; got != want {
			t.Errorf("got body %q, want %q", got, want)
		}
	})
}
