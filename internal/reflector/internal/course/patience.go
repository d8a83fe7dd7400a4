// SPDX-License-Identifier: Apache-2.0

package course

import "time"

// How long a session waits for an answer of which no part arrives. Then the attempt ends, and another one follows.

const (
	// AnswerTimeout is for the state. kube-apiserver has as long for a list.
	AnswerTimeout = time.Minute
	// ShortAnswerTimeout is for a GET, which kube-apiserver answers from one key of etcd, and for the rest of the
	// initial events of a WatchList. Their bookmark never comes from a server that takes the request for a plain watch.
	ShortAnswerTimeout = 15 * time.Second
	// WatchTimeout is for the watch after a list. Some proxies hold its answer back until the first event, which
	// may be a bookmark.
	WatchTimeout = 2 * time.Minute
)

// AnswerTimeout returns how long the answer to a request for the state may take. patience is that of a first attempt:
// [ShortAnswerTimeout] is too short where the server is far.
func (v Verb) AnswerTimeout(patience time.Duration) time.Duration {
	if v == Get {
		return min(max(ShortAnswerTimeout, patience), AnswerTimeout)
	}
	return AnswerTimeout
}

// NoAnswer takes the end of an attempt without an answer.
func (v *Verbs) NoAnswer() { v.record().unanswered++ }

// Patience returns after how long without an answer the next attempt is given up while a caller
// waits: the answer may be lost, or the server slow. That is first for a first attempt, and twice as long as the last
// answer took if that is longer. It doubles with each attempt without an answer since then, up to [AnswerTimeout].
func (v *Verbs) Patience(first time.Duration) time.Duration {
	if v.learned == nil {
		return first
	}
	l := v.learned
	return max(first, min(max(first, 2*l.slow)<<min(l.unanswered, 8), AnswerTimeout))
}
