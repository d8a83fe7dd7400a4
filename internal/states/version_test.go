// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"errors"
	"testing"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/states"
)

func TestCompareVersions(t *testing.T) {
	tests := map[string]struct {
		a, b      string
		want      int
		malformed bool
	}{
		"older":              {a: "9", b: "10", want: -1},
		"equal":              {a: "10", b: "10"},
		"newer":              {a: "10", b: "9", want: 1},
		"longer than uint64": {a: "100000000000000000000", b: "99999999999999999999", want: 1},
		"empty and a number": {b: "1", want: -1},
		"a number and empty": {a: "1", want: 1},
		"both empty":         {},
		"zero":               {a: "0", b: "10", malformed: true},
		"a leading zero":     {a: "10", b: "010", malformed: true},
		"no number":          {a: "10x", malformed: true},
		"no number, equal":   {a: "x", b: "x", malformed: true},
		"empty and zero":     {b: "0", malformed: true},
		"a negative number":  {a: "-1", b: "1", malformed: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := states.CompareVersions(test.a, test.b)
			if got != test.want || errors.Is(err, cache.ErrMalformed) != test.malformed || (err != nil) != test.malformed {
				t.Errorf("CompareVersions(%q, %q): got %d, %v, want %d, malformed: %v",
					test.a, test.b, got, err, test.want, test.malformed)
			}
		})
	}
}

func TestCheckVersion(t *testing.T) {
	for _, version := range []string{"1", "10", "100000000000000000000"} {
		if err := states.CheckVersion(version); err != nil {
			t.Errorf("CheckVersion(%q): got %v, want no error", version, err)
		}
	}
	for _, version := range []string{"", "0", "01", "-1", "1x"} {
		if err := states.CheckVersion(version); !errors.Is(err, cache.ErrMalformed) {
			t.Errorf("CheckVersion(%q): got %v, want ErrMalformed", version, err)
		}
	}
}
