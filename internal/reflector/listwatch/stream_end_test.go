// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

// A document that is no event ends a stream in the same way, parked or not, also if the
// body breaks off in it.
func TestStreamsEndInTheSameWay(t *testing.T) {
	malformed := map[string]bool{
		"": false, " ": false, "{": false, `{"type"`: false, "[": false, "[1": false, "\n [": false,
		"1": true, "12": true, "-": true, "t": true, "nul": true, "true": true, "a": true, "]": true, ":": true,
		`"`: true, `"x`: true, `"x"`: true, "{}": true, "[1]": true, "\n 1": true,
	}
	for rest, malformed := range malformed {
		for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, errors.New("reset")} {
			event := jsonFrame(t, watch.Added, canarySecret())
			body := append(bytes.Clone(event), rest...)
			_, want := drain(streamOf(io.MultiReader(bytes.NewReader(body), iotest.ErrReader(end))))
			if got := failure.Of(want) == failure.Malformed; got != malformed {
				t.Errorf("%q and %v: got %v, want malformed: %v", rest, end, want, malformed)
			}
			for _, arrived := range []int{0, len(event) / 2, len(event) - 1, len(event), len(body) - 1} {
				p := park(t, body[:arrived], 0)
				p.body.deliver(body[arrived:])
				p.end(end)
				if failure.Of(p.err) != failure.Of(want) || errors.Is(p.err, io.EOF) != errors.Is(want, io.EOF) {
					t.Fatalf("%q and %v, %d bytes arrived before: got %v, want %v, as Next", rest, end, arrived, p.err, want)
				}
			}
		}
	}
}
