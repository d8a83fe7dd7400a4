// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bufio"
	"errors"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/refwatch/refwatch/test/history"
)

// released is how soon after the last reference to an object there must be neither a stream nor a request. It allows
// for a machine that does other work, too.
const released = 3 * time.Second

// limits are what the history is checked for besides the rules that always hold. Those of failures and dials hold
// during faults too. Dials are those for watches: net/http may dial for each list, and a Gate bounds how many lists are
// under way. A client without back-off exceeds the bound of dials in an outage of two seconds. Restarts of servers that
// take ten streams on a connection need 350 dials for 1,000 objects, and 400 if the machine is busy.
func (o Options) limits() history.Limits {
	return history.Limits{
		Fresh: o.Fresh, Attempt: 5 * time.Second, Released: released,
		Streams:        2,                 // one may end while the next one opens
		ObjectFailures: 12,                // a back-off from 100 ms on allows 9
		Failures:       o.objects() + 500, // an error of each object, and the probes of outages
		Dials:          2*o.connections() + 500,
	}
}

// undecided returns the rules that the run should have decided and has not. L3 is decided only if requests fail.
func (s *soak) undecided(decided map[string]int64) (rules []string) {
	rules = []string{"S1", "S2", "S3", "S4", "S5", "S7", "S10", "L1", "L4", "L5"}
	if s.server.Observe != nil {
		rules = append(rules, "S6", "L2")
	}
	return slices.DeleteFunc(rules, func(rule string) bool { return decided[rule] > 0 })
}

// openHistory begins the history. close ends its file, if there is one.
func (s *soak) openHistory() (closeFile func()) {
	s.Helper()
	options := history.Options{Checker: s.checker}
	closeFile = func() {}
	if s.options.History != "" {
		file, err := os.Create(s.options.History)
		s.check(err)
		lines := bufio.NewWriter(file)
		options.Output = lines
		closeFile = func() {
			if err := errors.Join(s.history.Err(), lines.Flush(), file.Close()); err != nil {
				s.Error(err)
			}
		}
	}
	s.history = history.NewRecorder(options)
	return closeFile
}

// observe reports the streams that the server opens and closes.
func (s *soak) observe() {
	if s.server.Observe == nil {
		return
	}
	s.server.Observe(func(resource, name string) {
		s.history.Object(s.fullName(resource, name)).StreamOpened()
	}, func(resource, name string) {
		s.history.Object(s.fullName(resource, name)).StreamClosed()
	})
}

// recorder is a transport that reports the requests of the managers to the history.
type recorder struct {
	http.RoundTripper
	soak *soak
}

func (s *soak) record(next http.RoundTripper) http.RoundTripper { return recorder{next, s} }

// WrappedRoundTripper returns the transport that has the connections.
func (r recorder) WrappedRoundTripper() http.RoundTripper { return r.RoundTripper }

// RoundTrip implements http.RoundTripper. It reports when a request begins, and the code of its response.
func (r recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	verb := "list"
	if query.Get("watch") != "" {
		verb = "watch"
	}
	name, named := strings.CutPrefix(query.Get("fieldSelector"), "metadata.name=")
	folder, resource := path.Split(request.URL.Path)
	if parent, last := path.Split(strings.TrimSuffix(folder, "/")); request.URL.RawQuery == "" { // the path of one object
		folder, resource, name, named, verb = parent, last, resource, true, "get"
	}
	if !named || request.Method != http.MethodGet || folder != "/api/v1/namespaces/"+r.soak.server.Namespace+"/" {
		r.soak.history.Foreign(request.Method + " " + request.URL.String())
		return r.RoundTripper.RoundTrip(request)
	}
	o := r.soak.history.Object(r.soak.fullName(resource, name))
	o.Request(verb)
	response, err := r.RoundTripper.RoundTrip(request)
	code := 0
	if err == nil {
		code = response.StatusCode
	}
	o.Response(verb, code)
	return response, err
}

// fullName is the name of an object in the history.
func (s *soak) fullName(resource, name string) string {
	return path.Join(resource, s.server.Namespace, name)
}
