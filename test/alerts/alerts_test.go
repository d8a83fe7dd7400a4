// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"go.yaml.in/yaml/v3"
)

// rule is an alert, as a PrometheusRule has it.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// rules returns the alerts of the file. Unknown fields are errors.
func rules(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile("../../docs/dashboards/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		APIVersion string            `yaml:"apiVersion"`
		Kind       string            `yaml:"kind"`
		Metadata   map[string]string `yaml:"metadata"`
		Spec       struct {
			Groups []struct {
				Name  string `yaml:"name"`
				Rules []rule `yaml:"rules"`
			} `yaml:"groups"`
		} `yaml:"spec"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	if file.APIVersion != "monitoring.coreos.com/v1" || file.Kind != "PrometheusRule" || len(file.Spec.Groups) != 1 {
		t.Fatalf("got %+v, want a PrometheusRule with one group", file)
	}
	return file.Spec.Groups[0].Rules
}

// troubles are series of a program in trouble, one sample a minute, by the alert that they cause. +0x2000 repeats a
// sample 2,000 times.
var troubles = map[string]string{
	"RefwatchServerAway":        `refwatch_gate_outage{gate="cluster"} 1+0x2000`,
	"RefwatchObjectsFailing":    `refwatch_objects{resource="secrets",phase="Failing"} 2+0x2000`,
	"RefwatchObjectsNotUpdated": `refwatch_objects{resource="secrets",phase="NotUpdated"} 2+0x2000`,
	"RefwatchObjectsPolled":     `refwatch_objects_by_stream{resource="secrets",stream="Polled",reason=""} 2+0x2000`,
	"RefwatchGetsFail":          `refwatch_gets_total{resource="secrets",result="failed"} 0+1x2000`,
	"RefwatchNotHeld":           `refwatch_gets_total{resource="secrets",result="not_held"} 0+1x2000`,
	"RefwatchObjectsMissing":    `refwatch_absent_objects{resource="secrets"} 1+0x2000`,
	"RefwatchStateIsOld":        `refwatch_oldest_contact_timestamp_seconds{resource="secrets"} 0+0x2000`,
	"RefwatchReferencesLeak":    `refwatch_references{resource="secrets"} 0+1x2000`,
	"RefwatchStreamsBreak":      `refwatch_stream_opens_total{resource="secrets",reason="failed"} 0+120x2000`,
}

// healthy are series of a program without trouble: it serves, streams end and open again, and references come and go.
const healthy = `load 1m
  refwatch_gate_outage{gate="cluster"} 0+0x2000
  refwatch_objects{resource="secrets",phase="Failing"} 0+0x2000
  refwatch_objects{resource="secrets",phase="NotUpdated"} 0 1 0x1998
  refwatch_objects{resource="secrets",phase="Serving"} 100 99 100+0x1998
  refwatch_objects_by_stream{resource="secrets",stream="Polled",reason=""} 0+0x2000
  refwatch_gets_total{resource="secrets",result="hit"} 0+1000x2000
  refwatch_gets_total{resource="secrets",result="failed"} 0+0x2000
  refwatch_gets_total{resource="secrets",result="not_held"} 7+0x2000
  refwatch_absent_objects{resource="secrets"} 0+0x2000
  refwatch_oldest_contact_timestamp_seconds{resource="secrets"} 0+60x2000
  refwatch_references{resource="secrets"} 100+1x400 500-1x400 100+1x400 500-1x400 100+1x400
  refwatch_stream_opens_total{resource="secrets",reason="failed"} 3+0x2000
  refwatch_stream_opens_total{resource="secrets",reason="ended"} 0+2x2000
`

// holds reports whether an expression has a result at each minute of a period.
func holds(t *testing.T, load, expr string, from, period time.Duration) bool {
	t.Helper()
	storage := promqltest.LoadedStorage(t, load)
	defer func() { _ = storage.Close() }()
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	for at := from; at <= from+period; at += time.Minute {
		query, err := engine.NewInstantQuery(t.Context(), storage, nil, expr, time.Unix(0, 0).Add(at))
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		vector, err := query.Exec(t.Context()).Vector()
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		empty := len(vector) == 0
		query.Close()
		if empty {
			return false
		}
	}
	return true
}

// Each alert fires in its trouble, and not in another one or without.
func TestAlertsFire(t *testing.T) {
	const settled = 8 * time.Hour // when the longest range is full
	all := rules(t)
	if len(all) != len(troubles) {
		t.Errorf("got %d alerts, and series for %d", len(all), len(troubles))
	}
	for _, r := range all {
		t.Run(r.Alert, func(t *testing.T) {
			wait, err := model.ParseDuration(r.For)
			if err != nil {
				t.Fatal(err)
			}
			if !holds(t, "load 1m\n  "+troubles[r.Alert]+"\n", r.Expr, settled, time.Duration(wait)) {
				t.Errorf("in its trouble %s does not hold for %s", r.Expr, r.For)
			}
			if holds(t, healthy, r.Expr, settled, time.Duration(wait)) {
				t.Errorf("without trouble %s holds for %s", r.Expr, r.For)
			}
			for other, series := range troubles {
				if other != r.Alert && holds(t, "load 1m\n  "+series+"\n", r.Expr, settled, 0) {
					t.Errorf("%s holds in the trouble of %s", r.Expr, other)
				}
			}
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("got %+v, want a severity, a summary and a description", r)
			}
		})
	}
}

var metric = regexp.MustCompile(`refwatch_\w+`)

// The library exports the metrics of the alerts, and the table of docs/metrics.md has the same alerts.
func TestAlertsAreDocumented(t *testing.T) {
	exported, err := os.ReadFile("../../manager/metrics/testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "## What to alert on")
	table, _, _ = strings.Cut(table, "\n## ")
	if !found {
		t.Fatal("docs/metrics.md has no alerts")
	}
	all := rules(t)
	for _, r := range all {
		if _, err := parser.ParseExpr(r.Expr); err != nil {
			t.Errorf("%s: %v", r.Alert, err)
		}
		for _, name := range metric.FindAllString(r.Expr, -1) {
			if !bytes.Contains(exported, []byte("# TYPE "+name+" ")) {
				t.Errorf("%s: the library does not export %s", r.Alert, name)
			}
		}
		if row := "| `" + strings.ReplaceAll(r.Expr, "|", `\|`) + "` | " + r.For + " |"; !strings.Contains(table, row) {
			t.Errorf("docs/metrics.md lacks %s", row)
		}
	}
	if rows := strings.Count(table, "| `"); rows != len(all) {
		t.Errorf("docs/metrics.md has %d alerts, the file %d", rows, len(all))
	}
}
