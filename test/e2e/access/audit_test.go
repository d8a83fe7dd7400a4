// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/refwatch/refwatch/test/e2e"
)

// parameters are the query parameters that a list or watch of one object may have. limit and continue are not
// allowed.
var parameters = []string{
	"allowWatchBookmarks", "fieldSelector", "resourceVersion", "resourceVersionMatch", "sendInitialEvents", "timeout",
	"timeoutSeconds", "watch",
}

// allowList holds the requests that a user may send: lists and watches of objects by name, GETs of them beside first
// reads, and lists and watches of a node's pods.
type allowList struct {
	objects []string // such as "secrets/tls", in the namespace of the test
	node    string   // "" for none
	labels  string   // the label selector of each request
	fields  string   // what the field selector has after the name
}

// check returns an error if a request is not allowed.
func (a allowList) check(verb, uri string) error {
	if object, named := strings.CutPrefix(uri, "/api/v1/namespaces/"+namespace+"/"); verb == "get" && named && slices.Contains(a.objects, object) {
		return nil
	}
	if verb != "list" && verb != "watch" {
		return fmt.Errorf("verb %s", verb)
	}
	u, err := url.ParseRequestURI(uri)
	if err != nil {
		return err
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return err
	}
	if query.Get("labelSelector") != a.labels {
		return fmt.Errorf("label selector %q", query["labelSelector"])
	}
	query.Del("labelSelector")
	for name, values := range query {
		if !slices.Contains(parameters, name) || len(values) != 1 {
			return fmt.Errorf("parameter %s=%v", name, values)
		}
	}
	selector := query.Get("fieldSelector")
	if a.node != "" && u.Path == "/api/v1/pods" && selector == "spec.nodeName="+a.node {
		return nil
	}
	resource, named := strings.CutPrefix(u.Path, "/api/v1/namespaces/"+namespace+"/")
	name, selected := strings.CutPrefix(strings.TrimSuffix(selector, a.fields), "metadata.name=")
	if !named || !selected || !slices.Contains(a.objects, resource+"/"+name) {
		return errors.New("the request does not select a referenced object")
	}
	return nil
}

// requests are the requests that the library has sent as a user, from the server's audit log.
type requests struct {
	all       map[string]e2e.AuditEvent // the last stage of each, by audit ID
	open      []string                  // URIs of open watches
	forbidden int                       // number of 403 answers
}

// requests reads the requests of a user from the audit log.
func (r *rig) requests(user string) requests {
	r.Helper()
	events, err := r.cluster.AuditEvents()
	if err != nil {
		r.Fatal(err)
	}
	found := requests{all: map[string]e2e.AuditEvent{}}
	for _, event := range events {
		if event.User.Username == user && !strings.HasPrefix(event.UserAgent, manualAgent) {
			found.all[event.AuditID] = event
		}
	}
	for _, event := range found.all {
		if event.Stage == "ResponseStarted" {
			found.open = append(found.open, event.RequestURI)
		}
		if event.ResponseStatus.Code == http.StatusForbidden {
			found.forbidden++
		}
	}
	return found
}

// finish is called at the end of a test. It checks that no stream is open, by the server's metric and by the audit log,
// and that the user has sent allowed requests only.
func (r *rig) finish(user string, allowed allowList) requests {
	r.Helper()
	r.eventually("no open stream by the metric", func(ctx context.Context) error {
		open, err := r.cluster.OpenWatches(ctx, "secrets")
		if err == nil && open != 0 {
			err = fmt.Errorf("%d watches of secrets are open", open)
		}
		return err
	})
	var found requests
	r.eventually("no open watch by the audit log", func(context.Context) error {
		if found = r.requests(user); len(found.open) != 0 {
			return fmt.Errorf("open watches of %s: %v", user, found.open)
		}
		return nil
	})
	if len(found.all) == 0 {
		r.Errorf("audit log: got no request of %s, want some", user)
	}
	for _, event := range found.all {
		if err := allowed.check(event.Verb, event.RequestURI); err != nil {
			r.Errorf("audit log: %s sent %s %s: %v", user, event.Verb, event.RequestURI, err)
		}
	}
	r.Logf("%s sent %d requests, of which %d were forbidden", user, len(found.all), found.forbidden)
	return found
}

// TestAllowList: check refuses every other request.
func TestAllowList(t *testing.T) {
	const named = "/api/v1/namespaces/shop/secrets?fieldSelector=metadata.name%3Dtls"
	agent := allowList{objects: []string{"secrets/tls"}, node: "node-1"}
	for name, tc := range map[string]struct {
		verb, uri string
		allowed   bool
	}{
		"watch":            {"watch", named + "&sendInitialEvents=true&watch=true&allowWatchBookmarks=true", true},
		"list":             {"list", named + "&resourceVersion=7", true},
		"pods of the node": {"watch", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1&watch=true", true},
		"pods of another":  {"watch", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-2&watch=true", false},
		"all pods":         {"list", "/api/v1/pods", false},
		"get":              {"get", "/api/v1/namespaces/shop/secrets/tls", true},
		"get of another":   {"get", "/api/v1/namespaces/shop/secrets/other", false},
		"get of more":      {"get", "/api/v1/namespaces/shop/secrets/tls?watch=true", false},
		"write":            {"update", named, false},
		"unnamed":          {"list", "/api/v1/namespaces/shop/secrets", false},
		"cluster-wide":     {"list", "/api/v1/secrets?fieldSelector=metadata.name%3Dtls", false},
		"other name":       {"list", "/api/v1/namespaces/shop/secrets?fieldSelector=metadata.name%3Dother", false},
		"other kind":       {"list", "/api/v1/namespaces/shop/configmaps?fieldSelector=metadata.name%3Dtls", false},
		"other namespace":  {"list", "/api/v1/namespaces/x/secrets?fieldSelector=metadata.name%3Dtls", false},
		"two selectors":    {"list", named + "&fieldSelector=metadata.name%3Dtls", false},
		"wider selector":   {"list", named + "%2Ctype%3DOpaque", false},
		"limit":            {"list", named + "&limit=500", false},
		"continue":         {"list", named + "&continue=x", false},
		"label selector":   {"list", named + "&labelSelector=a", false},
		"discovery":        {"get", "/api", false},
		"invalid query":    {"list", named + "&%zz", false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := agent.check(tc.verb, tc.uri); (err == nil) != tc.allowed {
				t.Errorf("%s %s: got error %v, want allowed: %v", tc.verb, tc.uri, err, tc.allowed)
			}
		})
	}
}
