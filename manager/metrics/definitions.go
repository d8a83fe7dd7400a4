// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	compbasemetrics "k8s.io/component-base/metrics"
)

// prefix begins the name of each metric.
const prefix = "refwatch_"

// The labels of the metrics of a store, and of a gate.
const (
	labelStore    = "store"
	labelResource = "resource"
	labelGate     = "gate"
)

// descriptions are the metrics of a Collector. A registry changes the state of a Desc, so
// each Collector has its own.
type descriptions struct {
	objects, streams, references, absent *compbasemetrics.Desc // gauges of a store
	oldestContact                        *compbasemetrics.Desc // gauge of a store
	openStreams, parkedStreams           *compbasemetrics.Desc // gauges of a store
	opens, events, reads, gets           *compbasemetrics.Desc // counters of a store
	firstSync                            *compbasemetrics.Desc // histogram of a store
	attempts, window, outage             *compbasemetrics.Desc // gauges of a gate
	queued                               *compbasemetrics.Desc // histogram of a gate
	resets, goAways, left                *compbasemetrics.Desc // counters of a gate
}

func newDescriptions() descriptions {
	return descriptions{
		objects:       ofStore("objects", "Number of referenced objects, by what a Get returns.", "phase"),
		streams:       ofStore("objects_by_stream", "Number of referenced objects, by how changes of each arrive, and why none do.", "stream", "reason"),
		references:    ofStore("references", "Number of pairs of an object and an owner that references it."),
		absent:        ofStore("absent_objects", "Number of referenced objects that the server does not have."),
		oldestContact: ofStore("oldest_contact_timestamp_seconds", "Unix time at which the server last sent anything about an object; the oldest of all objects whose changes are watched or polled."),
		openStreams:   ofStore("open_streams", "Number of open watch streams."),
		parkedStreams: ofStore("parked_streams", "Number of open watch streams that are parked: they have no goroutine."),
		opens:         ofStore("stream_opens_total", "Number of attempts to open a stream, also those that fail, by reason.", "reason"),
		events:        ofStore("stream_events_total", "Number of events that the streams have delivered, by type.", "type"),
		reads:         ofStore("reads_total", "Number of reads without a stream, by result.", "result"),
		gets:          ofStore("gets_total", "Number of calls that get an object, by result.", "result"),
		firstSync:     ofStore("first_sync_duration_seconds", "Time from the first reference to an object until its state was known."),
		attempts:      ofGate("gate_attempts", "Number of attempts to read that are under way, queued for others, or paused after a failure or the end of a stream.", "state"),
		window:        ofGate("gate_window", "Number of attempts of healthy reflectors that may be under way at once."),
		outage:        ofGate("gate_outage", "1 while the server, or a resource, is in an outage, else 0."),
		resets:        ofGate("stream_resets_total", "Number of RST_STREAM frames of servers that have ended a watch stream, by code.", "code"),
		goAways:       ofGate("goaways_total", "Number of GOAWAY frames of servers, by code.", "code"),
		left:          ofGate("connections_left_total", "Number of connections that take no new watch streams any more, by reason.", "reason"),
		queued:        ofGate("gate_queue_duration_seconds", "Time that attempts to read were queued until they began."),
	}
}

// all returns the descriptions.
func (d *descriptions) all() []*compbasemetrics.Desc {
	return []*compbasemetrics.Desc{
		d.objects, d.streams, d.references, d.absent, d.oldestContact, d.openStreams, d.parkedStreams, d.opens, d.events, d.reads, d.gets, d.firstSync,
		d.attempts, d.window, d.outage, d.queued, d.resets, d.goAways, d.left,
	}
}

func ofStore(name, help string, labels ...string) *compbasemetrics.Desc {
	return newDesc(name, help, append([]string{labelStore, labelResource}, labels...))
}

func ofGate(name, help string, labels ...string) *compbasemetrics.Desc {
	return newDesc(name, help, append([]string{labelGate}, labels...))
}

func newDesc(name, help string, labels []string) *compbasemetrics.Desc {
	return compbasemetrics.NewDesc(prefix+name, help, labels, nil, compbasemetrics.ALPHA, "")
}
