// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"strings"

	"golang.org/x/net/http2"
)

// checkOutcome compares what a fault does with want, in the words of stateTable. It
// checks as well that the other stream of the connection goes on, or ends with it.
func (e *exchange) checkOutcome(victim, neighbour *opened, want string, fault func()) {
	e.t.Helper()
	got := e.outcome(victim, fault)
	if e.kind.name == reference.name && strings.HasPrefix(got, "C") {
		got = "C"
	}
	if want := e.kind.expects(want); got != want {
		e.t.Errorf("got %s (stream: %v), want %s", got, victim.reason(), want)
	}
	if neighbour != nil {
		e.checkNeighbour(neighbour, strings.HasPrefix(got, "C"))
	}
}

// expects returns what a client is expected to do of "ours/net/http's".
func (k clientKind) expects(want string) string {
	ours, theirs, different := strings.Cut(want, "/")
	switch {
	case k.name != reference.name:
		return ours
	case different:
		return theirs
	case strings.HasPrefix(ours, "C."):
		return "C" // the code stays in a buffer of net/http
	default:
		return ours
	}
}

// outcome describes what fault has done to a stream, in the words of stateTable.
func (e *exchange) outcome(v *opened, fault func()) string {
	e.wait()
	before := v.look()
	resets := len(e.resets(v.id))
	fault()
	e.wait()
	if e.closed() {
		return "C" + e.goAwayCode()
	}
	if code := e.goAwayCode(); code != "" {
		return "G" + code
	}
	after := v.look()
	codes := e.resets(v.id)
	switch {
	case len(codes) > resets+1:
		return "more than one RST_STREAM"
	case len(codes) > resets && after.end == "regular" && codes[resets] == http2.ErrCodeNo:
		return "end" // a client may reset a stream whose end it has seen
	case len(codes) > resets && after.end != "error" && v.mode != hold:
		return "RST_STREAM, but the stream is " + after.end
	case len(codes) > resets:
		return "S." + codeName(codes[resets])
	case after == before:
		return "-"
	case after.end == "open":
		return "ok"
	case after.end == "regular":
		return "end"
	case after.end == "error":
		return "err"
	}
	return after.end
}

// goAwayCode is the code of the client's GOAWAY with a dot before it, or nothing.
func (e *exchange) goAwayCode() string {
	for _, f := range e.frames(func(f frame) bool { return f.Type == http2.FrameGoAway }) {
		return "." + codeName(f.code)
	}
	return ""
}

func codeName(c http2.ErrCode) string { return strings.TrimSuffix(c.String(), "_ERROR") }

// checkNeighbour checks that a stream still gets data, or has failed with its
// connection.
func (e *exchange) checkNeighbour(n *opened, ended bool) {
	e.t.Helper()
	if ended {
		n.wantEnd(e.t, "error", "for the other stream of a connection that has ended")
		return
	}
	before := n.body()
	e.data(n.id, "still here")
	if !e.answersPing() {
		e.t.Errorf("the client answers no PING")
	}
	if got, want := n.body(), before+"still here"; got != want && e.kind.mode != hold {
		e.t.Errorf("got body %q of the other stream, want %q", got, want)
	}
	n.wantEnd(e.t, "open", "for the other stream")
}

// look is what the caller can see of a stream.
type look struct {
	status int
	body   string
	end    string
}

func (v *opened) look() look {
	if v.call == nil {
		return look{}
	}
	return look{v.status(), v.body(), v.end()}
}

func (v *opened) reason() error {
	if v.call == nil {
		return nil
	}
	return v.failure()
}
