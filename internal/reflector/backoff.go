// SPDX-License-Identifier: Apache-2.0

package reflector

import "github.com/refwatch/refwatch/internal/reflector/internal/admission"

// Backoff says when a reflector of the same selection may make its first attempt, for a program that stops and makes
// reflectors at the request of others: a selection that is dropped and followed again and again, or that fails, must
// not be asked for more often than one that stays. The zero value is that of a reflector which was well for 10 s.
type Backoff struct{ past admission.Past }

// Backoff returns the back-off for a reflector that takes the place of this one: see Options.Backoff. Call it before
// Stop. It is of use for a minute at most. Three reflectors in a row, each of which was stopped within 10 s of its
// read, are followed by another without a pause; then the pause is 0.1 s, doubling to 1 s, and all such reflectors of a
// Gate share the budget of failing ones: 20 attempts a second, and more for callers that wait. After failures their
// pause goes on instead. A server's Retry-After always does.
func (r *Reflector) Backoff() Backoff { return Backoff{r.member.Past()} }

// IsPause reports whether the first attempt waits.
func (b Backoff) IsPause() bool { return b.past.IsPause() }
