// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/refwatch/refwatch/test/bench/contender"
)

// section is a table of the page.
type section struct {
	title, intro string
	kinds        []string // of contenders
	rows         []row
}

type row struct{ text, figure string }

// streamPerObject are the contenders with a stream per object.
var streamPerObject = []string{contender.Refwatch, kubelet, informer, floor}

// sections are omitted if nothing of their last row was measured.
var sections = []section{
	{"A busy etcd", `Quiet: nobody else writes. Busy: another client writes 200 ConfigMaps a second, and its share of the control plane's
CPU is included.`, append(slices.Clone(streamPerObject), contender.ControllerRuntime), []row{
		{"register and sync 5,000 of 100 B, quiet, seconds", "sync-seconds-5000"},
		{"busy", "sync-busy-seconds-5000"},
		{"Gets that failed meanwhile, quiet", "failed-gets-5000"},
		{"busy", "sync-busy-failed-gets-5000"},
		{"CPU of kube-apiserver and etcd per object, quiet, ms", "control-plane-cpu-ms-per-object-5000"},
		{"busy", "sync-busy-control-plane-cpu-ms-per-object-5000"},
		{"writes of all clients in a second, busy", "sync-busy-writes-per-second-5000"},
		{"register one and get it, p50, quiet, ms", "first-get-p50-ms"},
		{"busy", "first-get-busy-p50-ms"},
		{"register one and get it, p99, quiet, ms", "first-get-p99-ms"},
		{"busy", "first-get-busy-p99-ms"},
	}},
	{"Cold start of one worker", `One goroutine registers and gets 200 Secrets one after the other, while another client writes 200 ConfigMaps a second.
refwatch-recent is refwatch with a FirstReadMaxAge of a second, the default of its cache for controller-runtime.`,
		append([]string{contender.Refwatch, contender.RefwatchRecent}, append(slices.Clone(streamPerObject)[1:], contender.ControllerRuntime)...),
		[]row{
			{"with the rights list and watch, seconds", "cold-start-seconds-200"},
			{"and get, seconds", "cold-start-get-seconds-200"},
			{"with list and watch, all registered before the first Get, seconds", "cold-start-referenced-seconds-200"},
		}},
	{"A command", `A program that reads 50 Secrets by name and ends, from its start until the last Get has returned. *direct* sends one GET
after the other. The others register all before the first Get.`,
		append(slices.Clone(streamPerObject), contender.ControllerRuntime, contender.Direct), []row{
			{"read 50 of 100 B, seconds", "command-seconds-50"},
		}},
	{"A Get after a deletion", `The real server. From the response to a deletion until Get returns that the Secret is absent, of 200 one after the
other. *refwatch-adapter* is refwatch's cache for controller-runtime. Its client knows of its deletions, and no Get
returns the old state. *direct* sends a GET. With the others a Get may return it, and is called again without a pause.`,
		[]string{contender.Refwatch, contender.Kubelet, contender.ControllerRuntime, contender.Adapter, contender.Direct}, []row{
			{"deletion until Get returns it, p50, ms", "get-after-delete-p50-ms"},
			{"p99", "get-after-delete-p99-ms"},
			{"Gets that returned the deleted Secret", "get-after-delete-stale-gets"},
		}},
	{"One update, and the server", `The real server. From an update is measured until Get returns it, once since the request for it was sent, and
once since its response had arrived: an event may be there before. Memory of kube-apiserver is that with all
streams open, less that before.`, streamPerObject, []row{
		{"update until Get returns it, p50, ms", "update-to-get-p50-ms"},
		{"p99", "update-to-get-p99-ms"},
		{"since the response, p50, ms", "update-response-to-get-p50-ms"},
		{"p99", "update-response-to-get-p99-ms"},
		{"memory of kube-apiserver per object, bytes", "server-bytes-per-object-5000"},
		{"CPU of kube-apiserver per object, to open all, ms", "server-cpu-ms-per-object-5000"},
	}},
	{"A server far away", `The real server, with a delay line in the client's dial: the connects of TCP and TLS cost a round trip each, and every
request one. An informer syncs in three. In turn: one goroutine registers and gets one after the other.`,
		streamPerObject, []row{
			{"register and sync 41 of 100 B, 0.1 s away, seconds", "far-100ms-seconds-41"},
			{"0.5 s away", "far-500ms-seconds-41"},
			{"1.4 s away", "far-1400ms-seconds-41"},
			{"4 s away", "far-4s-seconds-41"},
			{"Gets that failed meanwhile, 1.4 s away", "far-1400ms-failed-gets-41"},
			{"4 s away", "far-4s-failed-gets-41"},
			{"connections dialled meanwhile, 4 s away", "far-4s-dials-41"},
			{"register and sync 1,000, 0.5 s away, seconds", "far-500ms-seconds-1000"},
			{"connections dialled meanwhile", "far-500ms-dials-1000"},
			{"41 in turn, 0.5 s away, seconds", "far-in-turn-seconds-41"},
		}},
	{"A slow server", `A stub server answers each request after 1.4 s. Connections, and events after the answer, are not delayed.`,
		streamPerObject, []row{
			{"Gets that failed while 5,000 of 100 B were synced", "sync-latency-failed-gets-5000"},
			{"connections dialled meanwhile", "sync-latency-dials-5000"},
			{"register and sync 5,000 of 100 B, seconds", "sync-latency-seconds-5000"},
		}},
	{"Large objects", `1,000 of 4 kB, 500 of 100 kB and 100 of 1 MiB, whose values do not compress. All connections are cut once. Seconds,
bytes and CPU count from then until all streams are open again, and the client has received and handled what it reads
again. refwatch reads objects up to 16 KiB again, and compares larger ones; kubelet resumes its watches.`, streamPerObject, []row{
		{"heap and stacks per object, 4 kB, bytes", "memory-bytes-per-object-4kB"},
		{"100 kB", "memory-bytes-per-object-100kB"},
		{"1 MiB", "memory-bytes-per-object-1MiB"},
		{"register and sync all, 4 kB, seconds", "sync-seconds-4kB"},
		{"100 kB", "sync-seconds-100kB"},
		{"1 MiB", "sync-seconds-1MiB"},
		{"after the cut, 4 kB, seconds", "cut-seconds-4kB"},
		{"100 kB", "cut-seconds-100kB"},
		{"1 MiB", "cut-seconds-1MiB"},
		{"bytes received, 4 kB", "cut-bytes-4kB"},
		{"100 kB", "cut-bytes-100kB"},
		{"1 MiB", "cut-bytes-1MiB"},
		{"CPU of the client, 4 kB, seconds", "cut-client-cpu-seconds-4kB"},
		{"100 kB", "cut-client-cpu-seconds-100kB"},
		{"1 MiB", "cut-client-cpu-seconds-1MiB"},
		{"CPU of kube-apiserver and etcd, 4 kB, seconds", "cut-control-plane-cpu-seconds-4kB"},
		{"100 kB", "cut-control-plane-cpu-seconds-100kB"},
		{"1 MiB", "cut-control-plane-cpu-seconds-1MiB"},
	}},
	{"100,000 streams", "`go run . -scenarios many -contenders refwatch,refwatch-nethttp`" + ` in test/bench: against a stub server
in a process of its own on the same CPUs, with 100 streams on a connection. The figures are those of the client.`,
		[]string{contender.Refwatch, netHTTP}, []row{
			{"opened, from the first registration until each Get has returned, seconds", "many-open-seconds-100000"},
			{"CPU for that, seconds", "many-open-cpu-seconds-100000"},
			{"heap and stacks per stream, bytes", "many-memory-bytes-per-object-100000"},
			{"most memory that was resident, of the whole process, bytes", "many-peak-resident-bytes-100000"},
			{"goroutines", "many-goroutines-100000"},
			{"connections open", "many-connections-100000"},
			{"connections dialled", "many-dials-100000"},
			{"streams that the server refused", "many-refused-streams-100000"},
			{"each updated once, from the first update until Get has returned all, seconds", "many-update-seconds-100000"},
			{"CPU for that, seconds", "many-update-cpu-seconds-100000"},
			{"closed, from the first UnregisterPod until the server has no stream, seconds", "many-close-seconds-100000"},
			{"CPU for that, seconds", "many-close-cpu-seconds-100000"},
			{"heap after that, bytes", "many-heap-after-close-bytes-100000"},
		}},
}

// growth are the rows of the table with a column for each number of objects.
var growth = []row{
	{"register", "register"},
	{"register, and open the stream, until Get has returned", "open"},
	{"Get, of all in order", "get"},
	{"HasSynced", "has-synced"},
	{"Statuses", "statuses"},
	{"scrape of the metrics", "scrape"},
	{"debug page", "page"},
	{"debug page as JSON", "json"},
	{"one garbage collection", "collection"},
	{"update, of all at once", "update"},
	{"cut of all connections, until all streams are open again", "outage"},
	{"unregister", "unregister"},
}

var growthSizes = []int{1000, 10_000, 100_000}

// writeGrowth writes the table of growth, if it was measured.
func (r *Results) writeGrowth(page *strings.Builder) {
	figure := func(name, unit string, size int) float64 {
		return r.Median(fmt.Sprintf("growth-%s-%s-%d", name, unit, size), contender.Refwatch)
	}
	if math.IsNaN(figure(growth[len(growth)-1].figure, "us", growthSizes[0])) {
		return
	}
	page.WriteString("## Growth\n\n" + `CPU of the client for each object, in µs, and the seconds that the whole took with 100,000. For register, Get, HasSynced
and unregister it is the CPU of the thread that calls, for all others that of the process. Each object is used once, in
order, after other work: so a Get takes longer than above, and register makes the object. The debug page shows 500
objects, and counts all. The server is a stub in a process of its own, with 100 streams on a connection. Some figures
rise with the number of objects: 100,000 take 250 MB, which no cache of a CPU holds. We have not profiled each.` + "\n\n| operation |")
	for _, size := range growthSizes {
		fmt.Fprintf(page, " %d objects |", size)
	}
	page.WriteString(" seconds, all |\n|---" + strings.Repeat("|---", len(growthSizes)+1) + "|\n")
	for _, row := range growth {
		page.WriteString("| " + row.text + " |")
		for _, size := range growthSizes {
			page.WriteString(" " + Number(figure(row.figure, "us", size)) + " |")
		}
		page.WriteString(" " + Number(figure(row.figure, "seconds", growthSizes[len(growthSizes)-1])) + " |\n")
	}
	page.WriteString("\n")
}

// writeSections writes the sections that were measured.
func (r *Results) writeSections(page *strings.Builder) {
	for _, section := range sections {
		last := section.rows[len(section.rows)-1].figure
		if len(r.Figures[last].Medians) == 0 {
			continue
		}
		page.WriteString("## " + section.title + "\n\n" + section.intro + "\n\n| figure |")
		for _, kind := range section.kinds {
			page.WriteString(" " + kind + " |")
		}
		page.WriteString(" measured |\n|---" + strings.Repeat("|---", len(section.kinds)+1) + "|\n")
		for _, row := range section.rows {
			page.WriteString("| " + row.text + " |")
			for _, kind := range section.kinds {
				page.WriteString(" " + Number(r.Median(row.figure, kind)) + " |")
			}
			page.WriteString(" " + r.measured(row.figure) + " |\n")
		}
		page.WriteString("\n")
	}
}
