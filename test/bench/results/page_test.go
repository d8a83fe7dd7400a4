// SPDX-License-Identifier: Apache-2.0

package results

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPlot(t *testing.T) {
	dir := t.TempDir()
	r := filled()
	if err := r.Plot(dir); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]string{
		"memory.svg": {"objects", "KB per object", Kubelet}, "sync.svg": {"seconds", Floor},
		"goroutines.svg": {"goroutines per object", Informer}, "first-get.svg": {"ms", "first-get-p99-ms"},
		"update.svg": {"update-to-get-p50-ms"}, "cpu.svg": {"cpu-idle-ms-per-minute"},
		"outage-2s.svg": {"open streams", Refwatch}, "outage-60s.svg": {"outage of 60 s of the API server"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Errorf("%s: got error %v, want none", file, err)
			continue
		}
		if err := wellFormed(string(text)); err != nil {
			t.Errorf("%s: got error %v, want an XML document", file, err)
		}
		for _, part := range want {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s: got no %q, want it", file, part)
			}
		}
	}
}

func wellFormed(text string) error {
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestPlotOfNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	if err := New().Plot(dir); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 0 {
		t.Errorf("plots without results: got %v, %v; want none", files, err)
	}
}

func TestPage(t *testing.T) {
	r := filled()
	page := r.Page("../test/bench/out")
	for _, want := range []string{
		"| heap and stacks per object, bytes (`memory-bytes-per-object-5000`) | 1.50 | 102 | 302 | 0.0148 | 0.42 × kubelet, 1.20 × floor | yes |",
		"| goroutines per object (`goroutines-per-object-5000`) | 1.50 | 102 | 302 | 0.0148 | 2.10 | yes |",
		"| Gets that failed meanwhile (`failed-gets-5000`) | 1.50 | 102 | 302 | 0.0148 | 0 | **no** |",
		"median of 1 to 2 rounds",
		"![Heap and stacks per object](../test/bench/out/memory.svg)",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("page: got no %q, want it in:\n%s", want, page)
		}
	}
	if r.Environment.Quick = true; !strings.Contains(r.Page("."), "not a result") {
		t.Errorf("page of a quick run: got no warning, want one")
	}
}

func TestLimit(t *testing.T) {
	tests := map[string]struct {
		limit                    limit
		refwatch, kubelet, floor float64
		want                     bool
	}{
		"below kubelet's share": {ofKubelet(0.5), 4, 10, 1, true},
		"just kubelet's share":  {ofKubelet(0.5), 5, 10, 1, true},
		"above it":              {ofKubelet(0.5), 6, 10, 1, false},
		"above the floor's":     {ofFloor(1.2), 13, 100, 10, false},
		"in all":                {inAll(0), 0, 5, 5, true},
		"more in all":           {inAll(0), 1, 5, 5, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := New()
			for contender, value := range map[string]float64{Refwatch: test.refwatch, Kubelet: test.kubelet, Floor: test.floor} {
				r.Add("any", "figure", contender, value)
			}
			if got := test.limit.reached(r, "figure"); got != test.want {
				t.Errorf("%s reached: got %t, want %t", test.limit.text(), got, test.want)
			}
			if test.limit.reached(r, "another") {
				t.Errorf("%s reached without a number: got true, want false", test.limit.text())
			}
		})
	}
}
