// SPDX-License-Identifier: Apache-2.0

package course

import "time"

// How long an attempt may take.

// AnswerTimeout bounds the wait for the state, from the request on, of a first attempt.
// kube-apiserver allows as long for a list.
const AnswerTimeout = time.Minute

// GetTimeout is the same for an attempt that is a GET.
const GetTimeout = 15 * time.Second

// longestAnswer bounds the wait for the state after attempts without an answer.
const longestAnswer = 4 * AnswerTimeout

// NoAnswer takes the end of an attempt without an answer. givenUp says that a caller waited.
func (v *Verbs) NoAnswer(givenUp bool) {
	if l := v.record(); givenUp {
		l.givenUp++
	} else {
		l.late++
	}
}

// AnswerTimeout returns how long the next attempt may take to deliver the state. After an attempt
// that took too long, each second attempt may take longer: a slow server gets its time in the end,
// and a request that hangs is repeated soon.
func (v *Verbs) AnswerTimeout() time.Duration {
	if v.learned == nil || v.learned.late%2 == 1 {
		return AnswerTimeout
	}
	return min(AnswerTimeout<<min(v.learned.late/2, 8), longestAnswer)
}

// Patience returns after how long without an answer the next attempt is given up while a caller
// waits: the answer may be lost, or the server slow. That is first for a first attempt. It doubles with
// each attempt without an answer, up to AnswerTimeout.
func (v *Verbs) Patience(first time.Duration) time.Duration {
	if v.learned == nil {
		return first
	}
	return max(first, min(first<<min(v.learned.givenUp+v.learned.late, 8), AnswerTimeout))
}
