// SPDX-License-Identifier: Apache-2.0

package admission

import "time"

// budget is a token bucket for attempts of failing members. Unlike
// golang.org/x/time/rate it takes tokens back: an attempt that succeeds pays for
// others.
type budget struct {
	perSecond, most float64

	tokens float64
	at     time.Time
}

func newBudget(perSecond float64) budget {
	return budget{perSecond: perSecond, most: perSecond, tokens: perSecond}
}

// next returns when a token is there, now or later.
func (b *budget) next(now time.Time) time.Time {
	b.fill(now)
	if b.tokens >= 1 {
		return now
	}
	return now.Add(max(time.Millisecond, time.Duration((1-b.tokens)/b.perSecond*float64(time.Second))))
}

func (b *budget) fill(now time.Time) {
	if !b.at.IsZero() {
		b.add(now.Sub(b.at).Seconds() * b.perSecond)
	}
	b.at = now
}

func (b *budget) add(tokens float64) { b.tokens = min(b.tokens+tokens, b.most) }
