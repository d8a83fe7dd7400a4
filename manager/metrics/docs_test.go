// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/metrics"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/clients"
)

const page = "../../docs/metrics.md"

// exported returns the text of all metrics, and each with its type.
func exported(t *testing.T) (text string, types map[string]string) {
	t.Helper()
	secrets, err := manager.NewSecrets(clients.Nowhere(), nil)
	if err != nil {
		t.Fatal(err)
	}
	// An object of which the server has sent something: without one, a series is absent.
	store := fakeStore{stats: secrets.Stats(), statuses: []objectcache.Status{{Phase: objectcache.PhaseServing, Stream: objectcache.StreamNamed, LastContact: time.Now()}}}
	text = scrape(t, registries["Prometheus"](newCollector(t, map[string]metrics.Store{"secrets": store})))
	types = map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^# TYPE (\w+) (\w+)$`).FindAllStringSubmatch(text, -1) {
		types[match[1]] = match[2]
	}
	return text, types
}

// The table of docs/metrics.md has each metric with its type and labels, and no other.
func TestDocsListTheMetrics(t *testing.T) {
	text, types := exported(t)
	labels := map[string]map[string]bool{}
	for _, match := range sample.FindAllStringSubmatch(text, -1) {
		name := "refwatch_" + match[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, suffix); types[base] == "histogram" {
				name = base
			}
		}
		if labels[name] == nil {
			labels[name] = map[string]bool{}
		}
		for _, label := range label.FindAllStringSubmatch(match[2], -1) {
			if label[1] != "le" {
				labels[name][label[1]] = true
			}
		}
	}
	want := map[string]string{}
	for name, kind := range types {
		want[name] = fmt.Sprint(kind, slices.Sorted(maps.Keys(labels[name])))
	}
	got := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(refwatch_\\w+)` \\| (\\w+) \\| ([^|]*) \\|").FindAllStringSubmatch(read(t, page), -1) {
		names := strings.Split(strings.ReplaceAll(row[3], "`", ""), ", ")
		slices.Sort(names)
		got[row[1]] = fmt.Sprint(row[2], names)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/metrics.md differs (-want +got):\n%s", diff)
	}
}

// For each label with fixed values, docs/metrics.md has a table of them, and of no others. Two metrics may share it.
func TestDocsListTheValues(t *testing.T) {
	text, _ := exported(t)
	want := map[string][]string{}
	for _, match := range sample.FindAllStringSubmatch(text, -1) {
		for _, label := range label.FindAllStringSubmatch(match[2], -1) {
			switch label[1] {
			case "store", "resource", "gate", "le":
			default:
				heading := fmt.Sprintf("`refwatch_%s` by `%s`", match[1], label[1])
				if label[2] != "" && !slices.Contains(want[heading], label[2]) {
					want[heading] = append(want[heading], label[2])
				}
			}
		}
	}
	got := map[string][]string{}
	for _, section := range strings.Split(read(t, page), "\n### ")[1:] {
		section, _, _ = strings.Cut(section, "\n## ")
		heading, table, _ := strings.Cut(section, "\n")
		for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(table, -1) {
			for heading := range strings.SplitSeq(heading, ", ") {
				got[heading] = append(got[heading], row[1])
			}
		}
	}
	for _, values := range []map[string][]string{want, got} {
		for _, list := range values {
			slices.Sort(list)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/metrics.md differs (-want +got):\n%s", diff)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// namesIn returns the names of series in an expression. It fails for one that is not
// exported. A series of a histogram has a suffix, and no other has.
func namesIn(t *testing.T, expression string) (metrics []string) {
	t.Helper()
	_, types := exported(t)
	for _, name := range regexp.MustCompile(`refwatch_\w+`).FindAllString(expression, -1) {
		base, isPart := name, false
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if cut := strings.TrimSuffix(name, suffix); cut != name && types[cut] == "histogram" {
				base, isPart = cut, true
			}
		}
		if kind, ok := types[base]; !ok || isPart != (kind == "histogram") {
			t.Errorf("%s: got the name %s, want that of a series that is exported", expression, name)
		}
		metrics = append(metrics, base)
	}
	return metrics
}

// The alerts of docs/metrics.md use metrics that exist.
func TestAlertsUseTheMetrics(t *testing.T) {
	_, alerts, _ := strings.Cut(read(t, page), "## What to alert on")
	expressions := regexp.MustCompile("(?m)^\\| [^|`]+ \\| `(.*?)` \\|").FindAllStringSubmatch(alerts, -1)
	if len(expressions) < 5 {
		t.Fatalf("got %d alerts, want at least 5", len(expressions))
	}
	for _, expression := range expressions {
		if len(namesIn(t, expression[1])) == 0 {
			t.Errorf("alert %s: got no metric", expression[1])
		}
	}
}
