// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// The page of many objects takes much memory while it is made, and little when it is compressed. So one answer is made
// at a time, written compressed as it is made, and kept so until those who asked for it have read it.
const (
	// maxRequests is how many requests are answered at a time.
	maxRequests = 64
	// maxAnswers is how many different answers are waited for, made or sent at a time.
	maxAnswers = 8
	// sendTimeout is how long a client may take to read an answer.
	sendTimeout = 30 * time.Second
)

// errNotMade is the error of an answer whose source panicked.
var errNotMade = errors.New("a source has failed")

// answers are the answers of a handler that somebody waits for or reads.
type answers struct {
	turn chan struct{} // has a value while an answer is made

	mu       sync.Mutex
	requests int
	count    int
	waiting  map[query]*answer // nobody has begun to make these
}

func newAnswers() *answers {
	return &answers{turn: make(chan struct{}, 1), waiting: map[query]*answer{}}
}

// answer is what a query is answered with.
type answer struct {
	requests int // guarded by answers.mu

	left chan struct{} // closed when nobody waits for it any more
	made chan struct{} // closed when the rest is set
	gzip bytes.Buffer
	size int // before the compression
	err  error
}

// join returns the answer for a query, and whether the caller has to make it. All requests that come before it is begun
// have the same. It is nil if there are too many requests, else call leave once it is no longer needed.
func (a *answers) join(q query) (joined *answer, isFirst bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.requests == maxRequests {
		return nil, false
	}
	joined, ok := a.waiting[q]
	if !ok {
		if a.count == maxAnswers {
			return nil, false
		}
		joined = &answer{left: make(chan struct{}), made: make(chan struct{})}
		a.waiting[q] = joined
		a.count++
	}
	a.requests++
	joined.requests++
	return joined, !ok
}

func (a *answers) leave(q query, left *answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests--
	if left.requests--; left.requests > 0 {
		return
	}
	a.count--
	close(left.left)
	if a.waiting[q] == left {
		delete(a.waiting, q)
	}
}

// make makes an answer when no other is being made, and none if nobody waits for it any more.
func (a *answers) make(q query, answer *answer, write func(*bufio.Writer) error) {
	select {
	case a.turn <- struct{}{}:
	case <-answer.left:
		return
	}
	defer func() { <-a.turn }()
	a.mu.Lock()
	if answer.requests == 0 {
		a.mu.Unlock()
		return
	}
	delete(a.waiting, q) // who comes from now on wants a newer state
	a.mu.Unlock()

	defer close(answer.made)
	answer.err = errNotMade
	compressed, _ := gzip.NewWriterLevel(&answer.gzip, gzip.BestSpeed) // the level is valid
	counted := &counter{to: compressed}
	buffered := bufio.NewWriterSize(counted, 32<<10)
	err := write(buffered)
	answer.err = errors.Join(err, buffered.Flush(), compressed.Close())
	answer.size = counted.count
}

// counter counts the bytes that are written.
type counter struct {
	to    io.Writer
	count int
}

func (c *counter) Write(b []byte) (int, error) {
	c.count += len(b)
	return c.to.Write(b)
}

// send sends the answer to a client. It ends after sendTimeout if the server of w has deadlines, as that of net/http.
func (a *answer) send(w http.ResponseWriter, r *http.Request) {
	length := a.size
	isCompressed := acceptsGzip(r.Header)
	if isCompressed {
		w.Header().Set("Content-Encoding", "gzip")
		length = a.gzip.Len()
	}
	w.Header().Set("Content-Length", strconv.Itoa(length))
	if r.Method == http.MethodHead {
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendTimeout))
	if isCompressed {
		_, _ = w.Write(a.gzip.Bytes()) // an error means that the client has gone
		return
	}
	if plain, err := gzip.NewReader(bytes.NewReader(a.gzip.Bytes())); err == nil {
		_, _ = io.Copy(w, plain)
	}
}
