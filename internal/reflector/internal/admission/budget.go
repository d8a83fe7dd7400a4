// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// budget is a token bucket for the attempts of failing members. Unlike golang.org/x/time/rate, it can be given tokens:
// an attempt that succeeds adds some.
type budget struct {
	perSecond float64 // how fast it fills
	most      float64 // how many tokens it holds at most
	tokens    float64
	filledAt  moment.Moment
}

func newBudget(perSecond, most float64) *budget {
	return &budget{perSecond: perSecond, most: most, tokens: most}
}

// next returns when a token is available: now or later.
func (b *budget) next(now moment.Moment) moment.Moment {
	b.fill(now)
	if b.tokens >= 1 {
		return now
	}
	return now.Add(max(time.Millisecond, time.Duration((1-b.tokens)/b.perSecond*float64(time.Second))))
}

// fill adds the tokens for the time since the last fill.
func (b *budget) fill(now moment.Moment) {
	if !b.filledAt.IsZero() {
		b.add(now.Sub(b.filledAt).Seconds() * b.perSecond)
	}
	b.filledAt = now
}

func (b *budget) add(tokens float64) { b.tokens = min(b.tokens+tokens, b.most) }
