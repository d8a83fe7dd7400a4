// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/refwatch/refwatch/test/bench/contender"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// filled returns results for every plot and aim.
func filled(t *testing.T) *Results {
	t.Helper()
	r, err := Load(filepath.Join(t.TempDir(), "none"))
	if err != nil {
		t.Fatal(err)
	}
	rounds := map[string][]Round{}
	for i, kind := range contender.Kinds {
		for _, value := range []float64{1, 2} {
			values := map[string]float64{}
			for _, aim := range aims {
				values[aim.figure] = value + float64(i*100)
			}
			for _, picture := range pictures {
				for _, figure := range picture.figures {
					values[figure] = value + float64(i*100)
				}
			}
			for _, section := range sections {
				for _, row := range section.rows {
					values[row.figure] = value + float64(i*100)
				}
			}
			for _, row := range growth {
				for _, size := range growthSizes {
					values[fmt.Sprintf("growth-%s-us-%d", row.figure, size)] = value + float64(i*100)
					values[fmt.Sprintf("growth-%s-seconds-%d", row.figure, size)] = value + float64(i*100)
				}
			}
			rounds[kind.Name] = append(rounds[kind.Name], Round{Values: values})
		}
	}
	r.Add("any", rounds)
	for _, outage := range []string{"outage-2s", "outage-60s"} {
		var rounds []Round
		for _, seconds := range []float64{9, 1, 5} {
			recovery := NewRecovery(seconds, func(at float64) int64 { return int64(100 * max(at, 0)) })
			rounds = append(rounds, Round{Recovery: &recovery})
		}
		r.Add(outage, map[string][]Round{contender.Refwatch: rounds})
	}
	return r
}

func TestAddReplacesOnlyFiguresMeasuredAgain(t *testing.T) {
	r := filled(t)
	again := map[string][]Round{contender.Refwatch: {{Values: map[string]float64{"get-ns": 7}}}}
	if got := r.Add("get", again); !slices.Equal(got, []string{"get-ns"}) {
		t.Errorf("names: got %q, want get-ns", got)
	}
	for name, want := range map[string]float64{"get-ns": 7, "get-bytes": 1.5} {
		if got := r.Median(name, contender.Refwatch); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	recovery := r.Recoveries["outage-2s"][contender.Refwatch]
	if recovery.Seconds != 5 || recovery.Open[0] != 0 || recovery.Open[len(recovery.Open)-1] != 500 {
		t.Errorf("recovery: got %+v, want the middle one of three, from no streams to 500", recovery)
	}
}

func TestSaveAndLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a", "results.json")
	saved := filled(t)
	if err := saved.Save(file); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(file)
	if err != nil || !reflect.DeepEqual(loaded, saved) {
		t.Errorf("loaded: got %+v, %v; want %+v", loaded, err, saved)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err == nil || !strings.Contains(err.Error(), "remove "+file) {
		t.Errorf("loading a broken file: got %v, want an error that says to remove it", err)
	}
}

func TestPageAndPlot(t *testing.T) {
	r, dir := filled(t), t.TempDir()
	if err := r.Plot(dir); err != nil {
		t.Fatal(err)
	}
	page := r.Page()
	for _, picture := range pictures {
		content, err := os.ReadFile(filepath.Join(dir, picture.file))
		if err != nil || !strings.Contains(string(content), picture.unit) || !strings.Contains(page, picture.file+")") {
			t.Errorf("%s: got %v, want it with its unit, and in the page", picture.file, err)
		}
	}
	for _, want := range []string{
		"| heap and stacks per object, bytes (`memory-bytes-per-object-5000`) | quiet, 100 B | 1.50 | 102 | 302 | 502 | 0.0148 | 0.1 × kubelet, 0.22 × floor, 2500 | yes | 2 rounds, ",
		"| Gets that failed meanwhile (`failed-gets-5000`) | quiet, 100 B | 1.50 | 102 | 302 | 502 | 0.0148 | 0 | **no** |",
		"| register and sync all, seconds (`sync-busy-seconds-5000`) | busy, 100 B | 1.50 | 102 | 302 | 502 | 0.0148, in the worst round 0.0196 | 2.50, 1 × kubelet in every round | yes |",
		"Why an aim is missed:\n\n- ", "## A busy etcd\n", "| busy | 1.50 | 102 | 202 | 302 | 402 | 2 rounds, ",
		"## A command\n", "## A server far away\n", "## A slow server\n", "## Large objects\n", "## 100,000 streams\n", "## Growth\n", "| HasSynced | 1.50 | 1.50 | 1.50 | 1.50 |\n", "## Kubernetes 1.37\n", "| goroutines | 1.50 | 502 |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("page: got no %q, want it in:\n%s", want, page)
		}
	}
	r.Figures["few"] = Figure{Medians: map[string]float64{contender.Refwatch: 1, contender.RefwatchNetHTTP: 2}}
	for name, want := range map[string]string{
		"get-ns": "get-ns refwatch=1.50 kubelet=102 informer=202 floor=302 controller-runtime=402 " +
			"refwatch-nethttp=502 refwatch-followed=602 refwatch-recent=702 direct=802 refwatch-adapter=902 ratio=0.0148",
		"few": "few refwatch=1 refwatch-nethttp=2 ratio=–",
	} {
		if got := r.Line(name); got != want {
			t.Errorf("line:\n got %q\nwant %q", got, want)
		}
	}
	r.Figures = nil
	if page := r.Page(); strings.Contains(page, "| yes |") || strings.Contains(page, notReached) || strings.Contains(page, "100,000") || strings.Contains(page, "Growth") {
		t.Errorf("page without figures: got an aim that is reached or not, or 100,000 streams, want none in:\n%s", page)
	}
}

// The ratio of each round counts, not only that of the medians.
func TestEveryRound(t *testing.T) {
	aim := aim{figure: "a", limits: []limit{{1, everyRound}}}
	for name, test := range map[string]struct {
		refwatch, kubelet []float64
		want              string
	}{
		"ahead in each":        {[]float64{1, 2, 3}, []float64{2, 3, 4}, "yes"},
		"ahead in the median":  {[]float64{1, 5, 3}, []float64{2, 4, 9}, notReached},
		"no kubelet":           {[]float64{1}, nil, notReached},
		"kubelet has a figure": {nil, []float64{1}, notMeasured},
	} {
		t.Run(name, func(t *testing.T) {
			rounds := map[string][]Round{}
			for kind, values := range map[string][]float64{contender.Refwatch: test.refwatch, kubelet: test.kubelet} {
				for _, value := range values {
					rounds[kind] = append(rounds[kind], Round{Values: map[string]float64{"a": value}})
				}
			}
			r := &Results{Figures: map[string]Figure{}}
			r.Add("any", rounds)
			if got := aim.result(r); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A row of the saved results that misses its aim has the reason.
func TestMissedAimsHaveReasons(t *testing.T) {
	r, err := Load(filepath.Join("..", "out", "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, aim := range aims {
		if aim.result(r) == notReached && aim.missed == "" {
			t.Errorf("%s misses its aim: got no reason, want one in aims", aim.figure)
		}
	}
}

func TestNumber(t *testing.T) {
	for value, want := range map[float64]string{
		math.Inf(-1): "-Inf", 5: "5", 0: "0", 50438.26: "50438", 49.27: "49.3", 1.784: "1.78", 0.04512: "0.0451", -1.784: "-1.78",
	} {
		if got := Number(value); got != want {
			t.Errorf("Number(%v): got %q, want %q", value, got, want)
		}
	}
	if got := Number(math.NaN()); got != "–" {
		t.Errorf("Number of nothing: got %q, want a dash", got)
	}
}

func TestMedianAndPercentiles(t *testing.T) {
	if got := median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("median of three: got %v, want 5", got)
	}
	if got := median([]float64{4, 1, 2, 3}); got != 2.5 {
		t.Errorf("median of four: got %v, want 2.5", got)
	}
	for samples, want := range map[int][2]float64{1: {1, 1}, 3: {2, 3}, 20: {10, 20}, 100: {50, 99}, 200: {100, 198}} {
		round, all := Round{Values: map[string]float64{}}, []time.Duration{}
		for i := range samples {
			all = append(all, time.Duration(samples-i)*time.Millisecond)
		}
		round.AddPercentiles("get", all)
		if got := [2]float64{round.Values["get-p50-ms"], round.Values["get-p99-ms"]}; got != want {
			t.Errorf("p50 and p99 of %d samples: got %v, want %v", samples, got, want)
		}
	}
}
