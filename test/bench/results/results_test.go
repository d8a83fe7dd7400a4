// SPDX-License-Identifier: Apache-2.0

package results

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestMergeReplacesOnlyWhatWasMeasuredAgain(t *testing.T) {
	before := New()
	before.Add("get", "get-ns", Refwatch, 1)
	before.Add("get", "get-of-old", Refwatch, 1)
	before.Add("memory", "memory-5000", Refwatch, 2)
	before.AddRecovery("outage-2s", Kubelet, Recovery{Want: 1})
	before.AddRecovery("outage-60s", Kubelet, Recovery{Want: 2})
	again := New()
	again.Environment.Rounds = 7
	again.Add("get", "get-ns", Refwatch, 9)
	again.AddRecovery("outage-2s", Kubelet, Recovery{Want: 3})
	before.Merge(again)

	for name, want := range map[string]float64{"get-ns": 9, "get-of-old": math.NaN(), "memory-5000": 2} {
		if got := before.Median(name, Refwatch); !same(got, want) {
			t.Errorf("%s after the merge: got %v, want %v", name, got, want)
		}
	}
	for outage, want := range map[string]int{"outage-2s": 3, "outage-60s": 2} {
		if got := before.Recoveries[outage][Kubelet]; len(got) != 1 || got[0].Want != want {
			t.Errorf("%s after the merge: got %v, want one round with %d streams", outage, got, want)
		}
	}
	if got := before.Environment.Rounds; got != 7 {
		t.Errorf("rounds of the environment: got %d, want 7", got)
	}
}

func TestSaveAndLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a", "results.json")
	none, err := Load(file)
	if err != nil || len(none.Figures) != 0 {
		t.Fatalf("results that are not there: got %v, %v; want none and no error", none, err)
	}
	saved := filled()
	if err := saved.Save(file); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(loaded, saved) {
		t.Errorf("loaded: got %+v, want %+v", loaded, saved)
	}
}

func TestLoadSaysWhatToDo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err == nil || !strings.Contains(err.Error(), "remove "+file) {
		t.Errorf("error for a broken file: got %v, want one that says to remove it", err)
	}
}

func TestAddPercentiles(t *testing.T) {
	r := New()
	r.AddPercentiles("update", "update", Refwatch, []float64{3, 1, 2})
	r.AddPercentiles("update", "update", Kubelet, nil)
	for name, want := range map[string]float64{"update-p50-ms": 2, "update-p99-ms": 3} {
		if got := r.Median(name, Refwatch); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
		if got := r.Median(name, Kubelet); !math.IsNaN(got) {
			t.Errorf("%s without samples: got %v, want none", name, got)
		}
	}
	if got := r.Figures["update-p50-ms"].Samples[Refwatch]; len(got) != 1 || len(got[0]) != 3 {
		t.Errorf("samples: got %v, want three of one round", got)
	}
}

// filled are results with something for every plot and every row of the page.
func filled() *Results {
	r := New()
	r.Environment = Environment{Size: 5000, Sizes: []int{1000, 5000}, Rounds: 2, Go: "go1.26", Kubernetes: "v1.36.3"}
	size, largest := 5000, 5000
	for _, row := range rows(size, largest) {
		for i, contender := range always {
			for round := range 2 {
				r.Add("any", row.figure, contender, float64(1+i*100+round))
			}
		}
	}
	for _, name := range []string{"memory-bytes-per-object-1000", "sync-seconds-1000", "first-get-p99-ms", "cpu-idle-ms-per-minute", "cpu-updates-ms-per-1000"} {
		r.Add("any", name, Refwatch, 3)
		r.Add("any", name, Kubelet, 30)
	}
	for _, outage := range []string{"outage-2s", "outage-60s"} {
		r.AddRecovery(outage, Refwatch, Recovery{Want: 2, Seconds: []float64{-5, -4, 0, 1}, Open: []int64{2, 0, 1, 2}})
		r.AddRecovery(outage, Kubelet, Recovery{Want: 2, Seconds: []float64{-5, -4, 10, 30}, Open: []int64{2, 0, 1, 2}})
	}
	return r
}
