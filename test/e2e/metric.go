// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"unicode"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Metric returns a metric from the /metrics of all API servers: the sum of all samples that have at least these labels.
// For a histogram or summary it is the number of observations. It is 0 if there is no such sample: counters appear with
// their first event.
//
//	streams, err := cluster.Metric(ctx, "apiserver_longrunning_requests", map[string]string{"resource": "secrets"})
func (c *Cluster) Metric(ctx context.Context, name string, labels map[string]string) (sum float64, err error) {
	configs := []*rest.Config{c.admin}
	for _, replica := range c.allReplicas() {
		configs = append(configs, replica.At(c.admin))
	}
	for _, config := range configs {
		value, err := metric(ctx, config, name, labels)
		if err != nil {
			return 0, err
		}
		sum += value
	}
	return sum, nil
}

// metric returns the metric of one server.
func metric(ctx context.Context, config *rest.Config, name string, labels map[string]string) (float64, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, fmt.Errorf("making a client: %w", err)
	}
	text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading /metrics: %w", err)
	}
	return sumMetric(bytes.NewReader(text), name, labels)
}

func sumMetric(text io.Reader, name string, labels map[string]string) (float64, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	lines, err := linesOf(text, name)
	if err != nil {
		return 0, fmt.Errorf("reading /metrics: %w", err)
	}
	families, err := parser.TextToMetricFamilies(lines)
	if err != nil {
		return 0, fmt.Errorf("reading /metrics: %w", err)
	}
	sum := 0.0
	for _, sample := range families[name].GetMetric() {
		if hasLabels(sample, labels) {
			sum += value(sample)
		}
	}
	return sum, nil
}

// OpenWatches returns how many watches of single objects, and of whole namespaces, of a resource are open, by the API
// servers' own count. The servers' own watches are of the whole cluster.
func (c *Cluster) OpenWatches(ctx context.Context, resource string) (int, error) {
	sum := 0.0
	for _, scope := range []string{"resource", "namespace"} {
		open, err := c.Metric(ctx, "apiserver_longrunning_requests", map[string]string{
			"resource": resource, "scope": scope, "verb": "WATCH",
		})
		if err != nil {
			return 0, err
		}
		sum += open
	}
	return int(sum), nil
}

// linesOf returns the lines of the metric, and of metrics with that prefix, such as the buckets of a histogram. To
// parse the whole text, 1.5 MB, takes long with the race detector. Lines that are no metric are kept, for the parser to
// refuse.
func linesOf(text io.Reader, name string) (io.Reader, error) {
	all, err := io.ReadAll(text)
	if err != nil {
		return nil, err
	}
	var kept bytes.Buffer
	for line := range bytes.Lines(all) {
		metric, _ := bytes.CutPrefix(line, []byte("# TYPE "))
		other := line[0] == '#' || unicode.IsLetter(rune(line[0]))
		if bytes.HasPrefix(metric, []byte(name)) || !other {
			kept.Write(line)
		}
	}
	return &kept, nil
}

func hasLabels(sample *dto.Metric, labels map[string]string) bool {
	found := 0
	for _, label := range sample.GetLabel() {
		if want, ok := labels[label.GetName()]; ok && want == label.GetValue() {
			found++
		}
	}
	return found == len(labels)
}

// value returns the value of a sample of any type: all summands but one are zero.
func value(sample *dto.Metric) float64 {
	return sample.GetCounter().GetValue() + sample.GetGauge().GetValue() + sample.GetUntyped().GetValue() +
		float64(sample.GetHistogram().GetSampleCount()) + float64(sample.GetSummary().GetSampleCount())
}
