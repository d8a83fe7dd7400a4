// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	compbasemetrics "k8s.io/component-base/metrics"

	"github.com/refwatch/refwatch/internal/reflector/histogram"
	"github.com/refwatch/refwatch/objectcache"
)

// Store is what a [Collector] reads. Managers and all stores implement it. The Gate of its
// Stats must always be the same one.
type Store interface {
	Stats() objectcache.Stats
	Statuses() iter.Seq[objectcache.Status]
}

// Collector exports what stores and their Gates count. It implements
// component-base's StableCollector and Prometheus' Collector. Register it once, in one
// registry. Make one with [NewCollector].
type Collector struct {
	compbasemetrics.BaseStableCollector

	stores       map[string]Store
	gates        map[string]*objectcache.Gate // by the label
	descriptions descriptions
}

// NewCollector returns a collector of stores. Their names are the values of the label
// "store". They distinguish two stores of one resource, such as those of two clusters.
//
// A Gate that stores share counts once. The label "gate" is GateOptions.Name. For a Gate
// without name it is the names of its stores, sorted and separated by commas: with
// another store, all series of the Gate get another label.
//
// NewCollector returns an error if there is no store, if a store is nil or has no name, or
// if two Gates have one name.
func NewCollector(stores map[string]Store) (*Collector, error) {
	if len(stores) == 0 {
		return nil, errors.New("new collector: there is no store: pass managers or stores, by a name for each")
	}
	for name, store := range stores {
		switch value := reflect.ValueOf(store); {
		case name == "":
			return nil, errors.New("new collector: a store has no name: name each for the label \"store\"")
		case store == nil, value.Kind() == reflect.Pointer && value.IsNil():
			return nil, fmt.Errorf("new collector: the store %q is nil", name)
		}
	}
	gates, err := gatesOf(stores)
	if err != nil {
		return nil, err
	}
	return &Collector{stores: maps.Clone(stores), gates: gates, descriptions: newDescriptions()}, nil
}

// gatesOf returns the Gates of stores by their names: see NewCollector.
func gatesOf(stores map[string]Store) (map[string]*objectcache.Gate, error) {
	sharedBy := map[*objectcache.Gate][]string{}
	for _, name := range slices.Sorted(maps.Keys(stores)) {
		if gate := stores[name].Stats().Gate; gate != nil {
			sharedBy[gate] = append(sharedBy[gate], name)
		}
	}
	gates := map[string]*objectcache.Gate{}
	for gate, names := range sharedBy {
		name := cmp.Or(gate.Name(), strings.Join(names, ","))
		if gates[name] != nil {
			return nil, fmt.Errorf("new collector: two Gates have the name %q: give each another GateOptions.Name", name)
		}
		gates[name] = gate
	}
	return gates, nil
}

// Describe implements prometheus.Collector. A registry of Prometheus calls it alone;
// component-base's calls Create before.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	if !c.descriptions.objects.IsCreated() {
		c.Create(nil, c)
	}
	c.BaseStableCollector.Describe(ch)
}

// DescribeWithStability implements component-base's StableCollector.
func (c *Collector) DescribeWithStability(ch chan<- *compbasemetrics.Desc) {
	for _, desc := range c.descriptions.all() {
		ch <- desc
	}
}

// CollectWithStability implements component-base's StableCollector.
func (c *Collector) CollectWithStability(ch chan<- compbasemetrics.Metric) {
	for name, store := range c.stores {
		stats := store.Stats()
		labels := []string{name, stats.Resource.GroupResource().String()}
		c.collectStats(sink{ch, labels}, &stats)
		c.collectStatuses(sink{ch, labels}, store.Statuses())
	}
	for name, gate := range c.gates {
		c.collectGate(sink{ch, []string{name}}, gate)
	}
}

func (c *Collector) collectStats(s sink, stats *objectcache.Stats) {
	d := &c.descriptions
	s.gauge(d.references, float64(stats.References))
	s.gauge(d.absent, float64(stats.Absent))
	s.gauge(d.openStreams, float64(stats.OpenStreams))
	s.gauge(d.parkedStreams, float64(stats.ParkedStreams))
	counters(s, d.opens, stats.Opens)
	counters(s, d.events, stats.Events)
	counters(s, d.reads, stats.Reads)
	counters(s, d.gets, stats.Gets)
	s.histogram(d.firstSync, stats.FirstSync)
}

// stream is how changes of an object arrive, and why none do.
type stream struct {
	Type   objectcache.StreamType
	Reason objectcache.Reason
}

// collectStatuses sends what only the statuses of the objects have.
func (c *Collector) collectStatuses(s sink, statuses iter.Seq[objectcache.Status]) {
	phases, streams := map[objectcache.Phase]int{}, map[stream]int{}
	for _, phase := range objectcache.Phases() {
		phases[phase] = 0 // each has a value
	}
	for _, streamType := range objectcache.StreamTypes() {
		streams[stream{streamType, ""}] = 0
	}
	for _, reason := range objectcache.Reasons() {
		streams[stream{objectcache.StreamNone, reason}] = 0
	}
	var oldest time.Time
	for status := range statuses {
		phases[status.Phase]++
		streams[stream{status.Stream, status.Reason}]++
		if contact := status.LastContact; status.Stream != objectcache.StreamNone && !contact.IsZero() && (oldest.IsZero() || contact.Before(oldest)) {
			oldest = contact
		}
	}
	for phase, count := range phases {
		s.gauge(c.descriptions.objects, float64(count), string(phase))
	}
	for stream, count := range streams {
		s.gauge(c.descriptions.streams, float64(count), string(stream.Type), string(stream.Reason))
	}
	if !oldest.IsZero() {
		s.gauge(c.descriptions.oldestContact, float64(oldest.UnixNano())/float64(time.Second))
	}
}

func (c *Collector) collectGate(s sink, gate *objectcache.Gate) {
	d, status, outage := &c.descriptions, gate.Status(), 0.0
	if status.Cause != nil {
		outage = 1
	}
	s.gauge(d.attempts, float64(status.Opening), "opening")
	s.gauge(d.attempts, float64(status.Queued), "queued")
	s.gauge(d.attempts, float64(status.Paused), "paused")
	s.gauge(d.window, float64(status.Window))
	s.gauge(d.outage, outage)
	s.histogram(d.queued, status.Waits)
	connections := gate.Connections()
	counters(s, d.resets, connections.Resets)
	counters(s, d.goAways, connections.GoAways)
	counters(s, d.left, connections.Left)
}

// sink takes the metrics of one store or gate.
type sink struct {
	ch     chan<- compbasemetrics.Metric
	labels []string // the values of the first labels of each metric
}

func (s sink) gauge(desc *compbasemetrics.Desc, value float64, labels ...string) {
	s.ch <- compbasemetrics.NewLazyConstMetric(desc, compbasemetrics.GaugeValue, value, slices.Concat(s.labels, labels)...)
}

// counters sends a counter for each key.
func counters[K ~string](s sink, desc *compbasemetrics.Desc, values map[K]uint64) {
	for key, value := range values {
		s.ch <- compbasemetrics.NewLazyConstMetric(desc, compbasemetrics.CounterValue, float64(value), slices.Concat(s.labels, []string{string(key)})...)
	}
}

// histogram sends a histogram. component-base has no constant one.
func (s sink) histogram(desc *compbasemetrics.Desc, snapshot histogram.Snapshot) {
	metric := compbasemetrics.NewLazyConstMetric(desc, compbasemetrics.GaugeValue, 0, s.labels...)
	if metric == nil {
		return // hidden
	}
	buckets := make(map[float64]uint64, histogram.Buckets)
	for i, bound := range histogram.Bounds() {
		buckets[bound.Seconds()] = snapshot.Cumulative[i]
	}
	s.ch <- prometheus.MustNewConstHistogram(metric.Desc(), snapshot.Count, snapshot.Sum.Seconds(), buckets, s.labels...)
}
