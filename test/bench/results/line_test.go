// SPDX-License-Identifier: Apache-2.0

package results

import (
	"math"
	"slices"
	"testing"
)

func TestLine(t *testing.T) {
	r := New()
	for contender, rounds := range map[string][]float64{
		Refwatch: {20, 21, 19}, Kubelet: {50, 51, 49}, Floor: {17.5}, "controller-runtime": {0.25},
	} {
		for _, value := range rounds {
			r.Add("memory", "memory-bytes-per-object-5000", contender, value)
		}
	}
	const want = "memory-bytes-per-object-5000 refwatch=20 kubelet=50 informer=– floor=17.5 ratio=0.4 controller-runtime=0.25"
	if got := r.Line("memory-bytes-per-object-5000"); got != want {
		t.Errorf("line:\n got %q\nwant %q", got, want)
	}
	const none = "nothing refwatch=– kubelet=– informer=– floor=– ratio=–"
	if got := r.Line("nothing"); got != none {
		t.Errorf("line of a figure that is not there:\n got %q\nwant %q", got, none)
	}
}

func TestNumber(t *testing.T) {
	tests := map[string]struct {
		value float64
		want  string
	}{
		"missing":    {math.NaN(), Missing},
		"infinite":   {math.Inf(1), Missing},
		"whole":      {5, "5"},
		"zero":       {0, "0"},
		"large":      {50438.26, "50438"},
		"tens":       {49.27, "49.3"},
		"ones":       {1.784, "1.78"},
		"small":      {0.04512, "0.0451"},
		"below zero": {-1.784, "-1.78"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Number(test.value); got != test.want {
				t.Errorf("Number(%v): got %q, want %q", test.value, got, test.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	r := New()
	for _, name := range []string{"sync-seconds-10000", "get-ns", "sync-seconds-5000", "outage-60s-first", "sync-seconds-1000"} {
		r.Add("any", name, Refwatch, 1)
	}
	r.Add("another", "aaa", Refwatch, 1)
	want := []string{"get-ns", "outage-60s-first", "sync-seconds-1000", "sync-seconds-5000", "sync-seconds-10000"}
	if got := r.Names("any"); !slices.Equal(got, want) {
		t.Errorf("names of a scenario: got %q, want %q", got, want)
	}
	if got := r.Names(""); len(got) != len(want)+1 {
		t.Errorf("all names: got %q, want %d", got, len(want)+1)
	}
}
