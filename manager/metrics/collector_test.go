// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	compbasemetrics "k8s.io/component-base/metrics"

	"github.com/google/go-cmp/cmp"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/histogram"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/metrics"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/clients"
)

var update = flag.Bool("update", false, "write testdata/metrics.txt")

// registries are the two kinds of them. Each registers a collector.
var registries = map[string]func(*metrics.Collector) compbasemetrics.Gatherer{
	"component-base": func(c *metrics.Collector) compbasemetrics.Gatherer {
		registry := compbasemetrics.NewKubeRegistry()
		registry.CustomMustRegister(c)
		return registry
	},
	"Prometheus": func(c *metrics.Collector) compbasemetrics.Gatherer {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(c)
		return registry
	},
}

// fixed is a store whose numbers all differ.
func fixed() fakeStore {
	var sync histogram.Histogram
	sync.Observe(20 * time.Millisecond)
	sync.Observe(time.Hour)
	contact := time.Now().Add(-time.Minute)
	return fakeStore{
		stats: objectcache.Stats{
			Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
			Objects:  6, References: 7, Absent: 5,
			StreamStats: reflector.StreamStats{
				OpenStreams: 8, ParkedStreams: 7,
				Opens:  map[reflector.OpenReason]uint64{reflector.OpenFirst: 9, reflector.OpenRolledBack: 10},
				Events: map[watch.EventType]uint64{watch.Added: 11},
				Reads:  map[reflector.ReadResult]uint64{reflector.ReadFailed: 12},
			},
			Gets:      map[objectcache.GetResult]uint64{objectcache.GetHit: 13, objectcache.GetNotFound: 14},
			FirstSync: sync.Snapshot(),
			Gate:      reflector.NewGate(reflector.GateOptions{}),
		},
		statuses: []objectcache.Status{
			{Phase: objectcache.PhaseServing, Stream: objectcache.StreamNamed, LastContact: contact},
			{Phase: objectcache.PhaseFailing, Stream: objectcache.StreamPolled, LastContact: contact.Add(-time.Second)},
			{Phase: objectcache.PhaseServing, Stream: objectcache.StreamNone, Reason: objectcache.ReasonImmutable, LastContact: contact.Add(-time.Hour)},
			{Phase: objectcache.PhaseSyncing, Stream: objectcache.StreamNamed},
		},
	}
}

// The text is that of testdata/metrics.txt, which "go test -update" writes.
func TestText(t *testing.T) {
	const golden = "testdata/metrics.txt"
	for name, register := range registries {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := scrape(t, register(newCollector(t, map[string]metrics.Store{"widgets": fixed()})))
				if *update {
					if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), got); diff != "" {
					t.Errorf("text (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// The metrics follow Prometheus' rules for names, types and help texts.
func TestLint(t *testing.T) {
	text := scrape(t, registries["Prometheus"](newCollector(t, map[string]metrics.Store{"widgets": fixed()})))
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

// Two stores of one resource differ by their names. Stores that share a Gate have one
// line of it, whatever their number. It has the name of the Gate, or their names.
func TestStoresAndGates(t *testing.T) {
	client := clients.Nowhere()
	gate := objectcache.NewGate(objectcache.GateOptions{})
	named := objectcache.NewGate(objectcache.GateOptions{Name: "far"})
	newStore := func(options objectcache.StoreOptions) *manager.Manager[*corev1.Secret] {
		secrets, err := manager.NewSecrets(client, options)
		if err != nil {
			t.Fatal(err)
		}
		return secrets
	}
	east := newStore(objectcache.WatchOptions{Gate: gate})
	east.SetReferences(manager.Owner{Kind: "Test", Name: "owner"})
	stores := map[string]metrics.Store{
		"east":   east,
		"west":   newStore(objectcache.TTLOptions{Gate: gate}),
		"south":  newStore(objectcache.WatchOptions{Gate: gate}),
		"north":  newStore(nil),
		"direct": newStore(objectcache.DirectOptions{}),
		"moon":   newStore(objectcache.WatchOptions{Gate: named}),
		"mars":   newStore(objectcache.TTLOptions{Gate: named}),
	}
	text := scrape(t, registries["component-base"](newCollector(t, stores)))
	lines := regexp.MustCompile(`(?m)^refwatch_(references|gate_window)\{.*$`).FindAllString(text, -1)
	want := []string{
		`refwatch_gate_window{gate="east,south,west"} 0`,
		`refwatch_gate_window{gate="far"} 0`,
		`refwatch_gate_window{gate="north"} 0`,
		`refwatch_references{resource="secrets",store="direct"} 0`,
		`refwatch_references{resource="secrets",store="east"} 0`,
		`refwatch_references{resource="secrets",store="mars"} 0`,
		`refwatch_references{resource="secrets",store="moon"} 0`,
		`refwatch_references{resource="secrets",store="north"} 0`,
		`refwatch_references{resource="secrets",store="south"} 0`,
		`refwatch_references{resource="secrets",store="west"} 0`,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got %q, want %q", lines, want)
	}
}

func TestNewCollectorErrors(t *testing.T) {
	gated := func(name string) fakeStore {
		return fakeStore{stats: objectcache.Stats{Gate: objectcache.NewGate(objectcache.GateOptions{Name: name})}}
	}
	tests := map[string]struct {
		stores map[string]metrics.Store
		want   string
	}{
		"none":                      {nil, "there is no store"},
		"no name":                   {map[string]metrics.Store{"": fixed()}, "has no name"},
		"nil":                       {map[string]metrics.Store{"secrets": nil}, `"secrets" is nil`},
		"two Gates of a name":       {map[string]metrics.Store{"a": gated("east"), "b": gated("east")}, `two Gates have the name "east"`},
		"a Gate named like a store": {map[string]metrics.Store{"a": gated("b"), "b": gated("")}, `two Gates have the name "b"`},
		"typed nil": {
			map[string]metrics.Store{"secrets": (*manager.Manager[*corev1.Secret])(nil)}, `"secrets" is nil`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := metrics.NewCollector(test.stores); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}
