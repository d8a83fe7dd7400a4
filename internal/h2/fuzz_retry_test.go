// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// verdict is how a server treats a request. It returns false to close the connection.
type verdict struct {
	name string
	do   func(f *http2.Framer, c *tls.Conn, id uint32, code http2.ErrCode) bool
}

var verdicts = []verdict{
	{"answered", func(f *http2.Framer, _ *tls.Conn, id uint32, _ http2.ErrCode) bool {
		return answerWith(f, id, "200", true)
	}},
	{"server error", func(f *http2.Framer, _ *tls.Conn, id uint32, _ http2.ErrCode) bool {
		return answerWith(f, id, "503", true)
	}},
	{"too many requests", func(f *http2.Framer, _ *tls.Conn, id uint32, _ http2.ErrCode) bool {
		return answerWith(f, id, "429", true)
	}},
	{"refused", func(f *http2.Framer, _ *tls.Conn, id uint32, _ http2.ErrCode) bool {
		return f.WriteRSTStream(id, http2.ErrCodeRefusedStream) == nil
	}},
	{"protocol error", func(f *http2.Framer, _ *tls.Conn, id uint32, _ http2.ErrCode) bool {
		return f.WriteRSTStream(id, http2.ErrCodeProtocol) == nil
	}},
	{"reset", func(f *http2.Framer, _ *tls.Conn, id uint32, code http2.ErrCode) bool {
		if code == http2.ErrCodeRefusedStream || code == http2.ErrCodeProtocol {
			code = http2.ErrCodeInternal
		}
		return f.WriteRSTStream(id, code) == nil
	}},
	{"drained", func(f *http2.Framer, _ *tls.Conn, id uint32, _ http2.ErrCode) bool {
		return f.WriteGoAway(id-1, http2.ErrCodeNo, nil) == nil
	}},
	{"sent away", func(f *http2.Framer, _ *tls.Conn, id uint32, code http2.ErrCode) bool {
		return f.WriteGoAway(id-1, max(code, http2.ErrCodeProtocol), nil) == nil
	}},
	{"drained, processed, lost", func(f *http2.Framer, c *tls.Conn, id uint32, code http2.ErrCode) bool {
		time.AfterFunc(movedAfter/2, func() { _ = c.Close() }) // before it counts as silence
		return f.WriteGoAway(id, code, nil) == nil
	}},
	{"lost", func(*http2.Framer, *tls.Conn, uint32, http2.ErrCode) bool { return false }},
	{"silence", func(*http2.Framer, *tls.Conn, uint32, http2.ErrCode) bool { return true }},
}

// retryDifference is a verdict after which, deliberately, one of both Transports sends a request again and the other
// returns.
type retryDifference struct {
	verdict, why string // "" for any verdict
	again        bool   // this package's sends it again
	from         int    // how often the verdict must have come, at least
}

var retryDifferences = []retryDifference{
	{verdict: "refused", from: refusals, why: "A server that refuses streams may have too much to do: net/http sends eight times."},
	{verdict: "protocol error", from: refusals, why: "As for a refusal. The server does not say that it has not processed the request."},
	{verdict: "", from: attempts, why: "net/http has no limit while each new connection drains. The reflector waits before it goes on."},
	{verdict: "sent away", from: 1, why: "ENHANCE_YOUR_CALM, for instance, asks for no more requests. net/http obeys on the first stream only."},
	{verdict: "silence", from: 1, again: true, why: "A watch may come twice, and another server may answer. net/http waits."},
}

// skipOtherGo skips a comparison with net/http of another release: that of Go 1.27 sends nothing again after
// PROTOCOL_ERROR.
func skipOtherGo(tb testing.TB) {
	if !strings.HasPrefix(runtime.Version(), "go1.26") {
		tb.Skip("the table is that of net/http of Go 1.26")
	}
}

// attempted is what became of a request.
type attempted struct {
	sent    []string // the verdict of each time that the server got it
	outcome string
}

// FuzzRetries performs a script of verdicts with this package's Transport and with that of net/http. Both send the
// request as often, and return the same, but for retryDifferences.
func FuzzRetries(f *testing.F) {
	skipOtherGo(f)
	for first := range byte(12) {
		f.Add([]byte{first})
	}
	for v := range byte(len(verdicts)) {
		f.Add([]byte{v, v, 2})
		f.Add(append([]byte{0}, bytes.Repeat([]byte{v, 11}, attempts)...))
	}
	f.Fuzz(checkRetries)
}

func checkRetries(t *testing.T, script []byte) {
	if len(script) == 0 || len(script) > 30 {
		return
	}
	var ours, theirs attempted
	synctest.Test(t, func(t *testing.T) { ours = attempt(t, script, WithParking(t.Context())) })
	synctest.Test(t, func(t *testing.T) { theirs = attempt(t, script, t.Context()) })
	if !isDeliberate(ours, theirs) {
		t.Errorf("got %+v\nwant, as net/http, %+v", ours, theirs)
	}
}

// isDeliberate reports whether two results are equal, or part at one of retryDifferences.
func isDeliberate(ours, theirs attempted) bool {
	if ours.outcome == theirs.outcome && slices.Equal(ours.sent, theirs.sent) {
		return true
	}
	n := min(len(ours.sent), len(theirs.sent))
	if n == 0 || len(ours.sent) == len(theirs.sent) || !slices.Equal(ours.sent[:n], theirs.sent[:n]) {
		return false
	}
	return slices.ContainsFunc(retryDifferences, func(d retryDifference) bool {
		count := 0
		for _, v := range ours.sent[:n] {
			if d.verdict == "" || d.verdict == v {
				count++
			}
		}
		last := ours.sent[n-1]
		return (d.verdict == "" || d.verdict == last) && count >= d.from && d.again == (len(ours.sent) > n)
	})
}

// attempt sends a watch to a server that follows the script. The first byte says how many requests the connection has
// had before, and what becomes of it after them. Each pair that follows is a verdict and its code.
func attempt(t *testing.T, script []byte, ctx context.Context) (result attempted) { //nolint:revive // t is first in tests
	var mu sync.Mutex
	warm, after := int(script[0]%3), script[0]/3%4
	steps := script[1:]
	respond := func(f *http2.Framer, c *tls.Conn, id uint32) bool {
		mu.Lock()
		defer mu.Unlock()
		if warm > 0 {
			if warm--; warm > 0 {
				return answerWith(f, id, "200", true)
			}
			return answerWith(f, id, "200", true) && leave(f, c, id, after)
		}
		step := [2]byte{}
		steps = steps[copy(step[:], steps):]
		v := verdicts[int(step[0])%len(verdicts)]
		result.sent = append(result.sent, v.name)
		return v.do(f, c, id, http2.ErrCode(step[1]%14))
	}
	server := serve(t, func(s *site) {
		s.serveHTTP2(func(c *tls.Conn) {
			serverScript(c, func(f *http2.Framer, id uint32) bool { return respond(f, c, id) })
		})
	})
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	send := sender(clientFor(t, server.config()), ctx)
	for range warm {
		if got := send(); got != "200 OK" {
			t.Fatalf("the first requests: got %s, want 200", got)
		}
	}
	time.Sleep(time.Second)
	synctest.Wait()
	result.outcome = send()
	return result
}

// leave is what becomes of a connection without requests.
func leave(f *http2.Framer, c *tls.Conn, id uint32, after byte) bool {
	switch after {
	case 1:
		time.AfterFunc(time.Second/2, func() { _ = c.Close() })
	case 2:
		return f.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil) == nil
	case 3:
		return f.WriteGoAway(id, http2.ErrCodeEnhanceYourCalm, nil) == nil
	}
	return true
}

// sender returns a function that sends a watch, reads its response, and describes that.
func sender(c *client, ctx context.Context) func() string { //nolint:revive // not the context of a call
	return func() string {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://server/api?watch=true", nil)
		if err != nil {
			return err.Error()
		}
		response, err := c.Do(request)
		if err != nil {
			return "an error"
		}
		_ = response.Body.Close()
		return response.Status
	}
}

// The table has no row that nothing needs: for each of them there is a script on which the clients part.
func TestRetryDifferences(t *testing.T) {
	skipOtherGo(t)
	for _, d := range retryDifferences {
		t.Run(d.verdict, func(t *testing.T) {
			name := cmp.Or(d.verdict, "drained")
			v := byte(slices.IndexFunc(verdicts, func(v verdict) bool { return v.name == name }))
			script := append([]byte{1}, bytes.Repeat([]byte{v, 11}, d.from)...)
			var ours, theirs attempted
			synctest.Test(t, func(t *testing.T) { ours = attempt(t, script, WithParking(t.Context())) })
			synctest.Test(t, func(t *testing.T) { theirs = attempt(t, script, t.Context()) })
			if got := len(ours.sent) > len(theirs.sent); got != d.again || len(ours.sent) == len(theirs.sent) {
				t.Errorf("got %+v, and %+v of net/http, want the first to send more: %t", ours, theirs, d.again)
			}
		})
	}
}
