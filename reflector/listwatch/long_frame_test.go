// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/cache"
)

// What takes a second is done once, and not with each engine.
var limitOnce, sumOnce sync.Once

// A JSON frame has no length in front. It is refused at the limit, and what
// follows is not read, however much that is: a GiB here.
func TestJSONFrameThatIsTooLong(t *testing.T) {
	bodies := map[string][]string{
		"a string":       {`{"type":"`, "\"}\n"},
		"an object":      {`{"type":"ADDED","object":{"data":{"x":"`, "\"}}}\n"},
		"after another":  {string(jsonFrame(t, watch.Added, hiddenSecret())) + `{"type":"`, "\"}\n"},
		"blanks between": {string(jsonFrame(t, watch.Added, hiddenSecret())), "\n"},
	}
	limitOnce.Do(func() {
		for name, body := range bodies {
			filling := byte('a')
			if name == "blanks between" {
				filling = ' '
			}
			counted := &counter{Reader: io.MultiReader(
				strings.NewReader(body[0]), io.LimitReader(endless(filling), 1<<30), strings.NewReader(body[1]))}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := drain(streamOf(counted))
			runtime.ReadMemStats(&after)
			if !errors.Is(err, cache.ErrMalformed) {
				t.Errorf("%s: got %v, want ErrMalformed", name, err)
			}
			if got, want := counted.n, int64(largestFrame+largestKept); got > want {
				t.Errorf("%s: read %d bytes, want %d at most", name, got, want)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 8*largestFrame {
				t.Errorf("%s: allocated %d MiB, want %d at most", name, got>>20, 8*largestFrame>>20)
			}
			tellsNothing(t, err)
		}
	})
}

// The limit is that of one frame: many make as much and more.
func TestManyJSONFramesAreNotTooLong(t *testing.T) {
	sumOnce.Do(func() {
		large := hiddenSecret()
		large.Data["large"] = bytes.Repeat([]byte("x"), 1<<20)
		frame := jsonFrame(t, watch.Modified, large)
		n := largestFrame/len(frame) + 2
		var bodies []io.Reader
		for range n {
			bodies = append(bodies, bytes.NewReader(frame))
		}
		events, err := drain(streamOf(io.MultiReader(bodies...)))
		if len(events) != n || !errors.Is(err, io.EOF) {
			t.Errorf("got %d events and %v, want %d and io.EOF", len(events), err, n)
		}
	})
}

// counter counts what is read.
type counter struct {
	io.Reader

	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}
