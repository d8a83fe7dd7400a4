// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

const metricText = `# TYPE streams gauge
streams{resource="secrets",verb="WATCH"} 2
streams{resource="pods",verb="WATCH"} 3
streams{resource="secrets",verb="LIST"} 4
# TYPE requests counter
requests 7
# TYPE seconds histogram
seconds_bucket{le="1"} 1
seconds_bucket{le="+Inf"} 5
seconds_sum 9
seconds_count 5
# TYPE size summary
size_sum 9
size_count 6
something 8
`

func TestSumMetric(t *testing.T) {
	for name, test := range map[string]struct {
		metric string
		labels map[string]string
		want   float64
	}{
		"sum of all":      {metric: "streams", want: 9},
		"one label":       {metric: "streams", labels: map[string]string{"resource": "secrets"}, want: 6},
		"two labels":      {metric: "streams", labels: map[string]string{"resource": "secrets", "verb": "LIST"}, want: 4},
		"another value":   {metric: "streams", labels: map[string]string{"resource": "nodes"}},
		"a missing label": {metric: "streams", labels: map[string]string{"resource": "secrets", "user": ""}},
		"counter":         {metric: "requests", want: 7},
		"histogram":       {metric: "seconds", want: 5},
		"summary":         {metric: "size", want: 6},
		"without a type":  {metric: "something", want: 8},
		"unknown":         {metric: "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := sumMetric(strings.NewReader(metricText), test.metric, test.labels)
			if err != nil || got != test.want {
				t.Errorf("got %v and %v, want %v", got, err, test.want)
			}
		})
	}
	if _, err := sumMetric(strings.NewReader("<html>"), "streams", nil); err == nil {
		t.Error("no metrics at all: got no error, want one")
	}
}

// OpenWatches counts open watches.
func testMetric(t *testing.T, c *Cluster) {
	put(t, c, "counted", "1")
	before, err := c.OpenWatches(t.Context(), "configmaps")
	if err != nil {
		t.Fatal(err)
	}
	want := func(want int) {
		eventually(t, func(ctx context.Context) error {
			got, err := c.OpenWatches(ctx, "configmaps")
			if err == nil && got != want {
				err = fmt.Errorf("got %v, want %v", got, want)
			}
			return err
		})
	}
	w := startWatch(t, Client(t, c.Admin()), "counted")
	want(before + 1)
	w.Stop()
	want(before)
}
