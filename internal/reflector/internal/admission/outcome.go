// SPDX-License-Identifier: Apache-2.0

package admission

import "time"

// Kind is the kind of an attempt's outcome. The caller classifies its errors; this package does not.
type Kind int

const (
	// Canceled means that the caller gave the attempt up, or sent no request. Nothing is learned from it.
	Canceled Kind = iota
	// Synced means that the state arrived.
	Synced
	// Answered means that the server answered and that the next attempt sends another request, as after an expired
	// resource version.
	Answered
	// Refused means that the server does not serve this member: 403, 404, other 4xx.
	Refused
	// Unauthorized means that the server does not accept the client's token: 401.
	Unauthorized
	// Throttled means that the server has too many requests: 429.
	Throttled
	// Failed means that the server's answer is unusable: 5xx, or malformed data.
	Failed
	// Unreachable means that no answer came: connection refused, reset or timed out.
	Unreachable
	// GivenUp means that the caller ended the attempt after its request was sent, and that others may follow soon. The
	// pause of a member that fails grows: nobody can tell whether the attempt would have succeeded.
	GivenUp
)

// Outcome is the result of an attempt.
type Outcome struct {
	Kind Kind
	// RetryAfter is how long the server asked this member to wait, 0 if it did not ask. At most a minute is honored.
	RetryAfter time.Duration
	// Cause is the error of the attempt. Status and Waiting return it.
	Cause error
}
