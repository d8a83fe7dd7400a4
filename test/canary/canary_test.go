// SPDX-License-Identifier: Apache-2.0

package canary_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/test/canary"
)

// encoders encode bytes as programs do, and name the encoding that Find reports.
var encoders = map[string]struct {
	encoding string
	encode   func([]byte) string
}{
	"raw":             {"raw", func(b []byte) string { return string(b) }},
	"quoted":          {"raw", func(b []byte) string { return fmt.Sprintf("%q", b) }},
	"JSON string":     {"raw", func(b []byte) string { return mustJSON(string(b)) }},
	"base64":          {"base64", base64.StdEncoding.EncodeToString},
	"base64 raw":      {"base64", base64.RawStdEncoding.EncodeToString},
	"base64 URL":      {"base64", base64.URLEncoding.EncodeToString},
	"base64 raw URL":  {"base64", base64.RawURLEncoding.EncodeToString},
	"JSON bytes":      {"base64", func(b []byte) string { return mustJSON(b) }},
	"hex":             {"hex", hex.EncodeToString},
	"upper hex":       {"hex", func(b []byte) string { return fmt.Sprintf("%X", b) }},
	"spaced hex":      {"hex", func(b []byte) string { return fmt.Sprintf("% x", b) }},
	"hex dump":        {"raw", func(b []byte) string { return hex.Dump([]byte(strings.TrimSpace(string(b)))) }},
	"%v":              {"decimal", func(b []byte) string { return fmt.Sprintf("%v", b) }},
	"%#v":             {"decimal", func(b []byte) string { return fmt.Sprintf("%#v", b) }},
	"JSON array":      {"decimal", func(b []byte) string { return mustJSON(numbers(b)) }},
	"URL query":       {"URL", func(b []byte) string { return url.QueryEscape(string(b)) }},
	"URL path":        {"URL", func(b []byte) string { return url.PathEscape(string(b)) }},
	"URL, lower case": {"URL", func(b []byte) string { return lowered.Replace(url.QueryEscape(string(b))) }},
}

var lowered = strings.NewReplacer("%2B", "%2b", "%2F", "%2f", "%3F", "%3f")

func mustJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func numbers(b []byte) (numbers []int) {
	for _, c := range b {
		numbers = append(numbers, int(c))
	}
	return numbers
}

// A whole value is found in each encoding, and so is each part of eight bytes, wherever
// it begins in the encoded bytes. A part of five bytes is not.
func TestFind(t *testing.T) {
	for name, test := range encoders {
		t.Run(name, func(t *testing.T) {
			var canaries canary.Canaries
			canaries.New()
			value := canaries.New()
			for from := range len(value) {
				for _, length := range []int{5, 8, 9, len(value)} {
					for before := range 3 {
						if from+length > len(value) || name == "hex dump" && length < 16 {
							continue // a hex dump breaks lines after 16 bytes
						}
						piece := value[from : from+length]
						text := "before " + test.encode([]byte("   "[:before]+piece+"  ")) + " after"
						found := canaries.Find(text)
						// A part without a character that is escaped is the same in a URL.
						want := []string{test.encoding}
						if test.encoding == "URL" && (length > 8 || strings.Contains(text, piece)) {
							want = append(want, "raw")
						}
						if length >= 8 != slices.ContainsFunc(found, func(l canary.Leak) bool { return l.Value == 2 && slices.Contains(want, l.Encoding) }) {
							t.Fatalf("%d bytes from %d after %d: got %v in %q", length, from, before, found, text)
						}
					}
				}
			}
		})
	}
}

// Find reports the value, the encoding and the offset, once.
func TestLeak(t *testing.T) {
	var canaries canary.Canaries
	_, second := canaries.New(), canaries.New()
	want := canary.Leak{Value: 2, Encoding: "raw", Offset: 4}
	if got := canaries.Find("see " + second + " and " + second); len(got) != 1 || got[0] != want {
		t.Errorf("Find: got %v, want %v", got, want)
	}
	if got := canaries.Find("nothing here, and nothing " + second[:7]); got != nil {
		t.Errorf("Find: got %v, want nothing", got)
	}
	if texts, bytes := canaries.Searched(); texts != 2 || bytes != int64(4+32+5+32+26+7) {
		t.Errorf("Searched: got %d texts of %d bytes, want 2 of %d", texts, bytes, 4+32+5+32+26+7)
	}
	if text := canary.Print(want); strings.Contains(text, second[:8]) {
		t.Errorf("Leak: got %s, want no value", text)
	}
}

func TestEmpty(t *testing.T) {
	var canaries canary.Canaries
	if got := canaries.Find("a text of some length"); got != nil {
		t.Errorf("Find without values: got %v, want nothing", got)
	}
	canaries.New()
	if got := canaries.Find(""); got != nil {
		t.Errorf("Find in nothing: got %v, want nothing", got)
	}
}

// holder prints as its public face, and holds a Secret.
type holder struct{ Secret *corev1.Secret }

func (holder) String() string   { return "holder" }
func (holder) GoString() string { return "holder" }

// Print finds what an error wraps, and what only a JSON encoder or a logger prints.
func TestPrint(t *testing.T) {
	var canaries canary.Canaries
	value := canaries.New()
	quoting := errors.New(value)
	secret := &corev1.Secret{Data: map[string][]byte{"password": []byte(value)}}
	for name, test := range map[string]struct {
		value any
		leaks bool
	}{
		"an error":           {quoting, true},
		"wrapped":            {fmt.Errorf("x: %w", quoting), true},
		"joined":             {errors.Join(errors.New("x"), quoting), true},
		"hidden in its text": {wrapper{quoting}, true},
		"a secret":           {secret, true},
		"only as JSON":       {holder{secret}, true},
		"clean":              {errors.New("no value"), false},
		"nil":                {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := canaries.Find(canary.Print(test.value)); (len(got) > 0) != test.leaks {
				t.Errorf("Print: got leaks %v, want any: %v", got, test.leaks)
			}
		})
	}
}

// wrapper is an error whose text does not show what it wraps.
type wrapper struct{ inner error }

func (wrapper) Error() string              { return "hidden" }
func (w wrapper) Unwrap() error            { return w.inner }
func (wrapper) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte("hidden")) }
