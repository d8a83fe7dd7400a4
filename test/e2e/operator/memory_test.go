// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
)

const mega = 1e6

// memory returns the resident memory of a process and its maximum so far, in MB.
func (r *rig) memory(pid int) (rss, peak float64) {
	r.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	r.must(err)
	const kibi = 1024
	return field(r.T, string(status), "VmRSS:") * kibi / mega, field(r.T, string(status), "VmHWM:") * kibi / mega
}

// anonymous returns the resident memory of a process without its files, in MB.
func (r *rig) anonymous(pid int) float64 {
	r.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	r.must(err)
	const kibi = 1024
	return field(r.T, string(status), "RssAnon:") * kibi / mega
}

// heapOf returns the bytes of live heap objects in a text of metrics, in MB.
func heapOf(t *testing.T, metrics string) float64 {
	t.Helper()
	return field(t, metrics, "go_memstats_heap_alloc_bytes ") / mega
}

// field returns the number after the name at the start of a line.
func field(t *testing.T, text, name string) float64 {
	t.Helper()
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			value, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	t.Fatalf("got no line with %q in:\n%s", name, text)
	return 0
}

// httpGet returns the response of the operator.
func (r *rig) httpGet(address, path string) string {
	r.Helper()
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://"+address+path, nil)
	r.must(err)
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	r.must(err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	r.must(err)
	if response.StatusCode != http.StatusOK {
		r.Fatalf("%s: got status %s", path, response.Status)
	}
	return string(body)
}
