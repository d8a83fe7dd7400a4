// SPDX-License-Identifier: Apache-2.0

package admission

import "time"

// Kind says how an attempt went, as far as admission is concerned. The caller
// classes its errors; this package classes none.
type Kind int

const (
	// Canceled means that the attempt was given up. Nothing is learned from it.
	Canceled Kind = iota
	// Synced means that the state arrived.
	Synced
	// Answered means that the server answered and that the next attempt asks for
	// something else, as after an expired resource version.
	Answered
	// Refused means that the server will not serve this member: 403, 404, other 4xx.
	Refused
	// Unauthorized means that the server does not know the client: 401.
	Unauthorized
	// Throttled means that the server asked for patience: 429.
	Throttled
	// Failed means that the server answered with something unusable: 5xx, or
	// data that does not belong there.
	Failed
	// Unreachable means that no answer came: refused, reset, timed out.
	Unreachable
)

// Outcome is how an attempt went.
type Outcome struct {
	Kind Kind
	// RetryAfter is how long the server asked to be left alone by this member; 0
	// if it did not ask. A minute is the most that is honored.
	RetryAfter time.Duration
	// Cause is handed out again by Status and Waiting. It is not looked into.
	Cause error
}
