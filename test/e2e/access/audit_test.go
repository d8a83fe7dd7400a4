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

// parameters are those that a list or watch of one object may have, besides its field selector. There is no
// limit, no continue and no label selector among them: with those a request would select something else.
var parameters = []string{
	"allowWatchBookmarks", "fieldSelector", "resourceVersion", "resourceVersionMatch", "sendInitialEvents", "timeout",
	"timeoutSeconds", "watch",
}

// allowList says which requests a user may have sent. All of them are lists and watches.
type allowList struct {
	objects []string // by name: "secrets/tls", in the namespace of the test
	node    string   // whose pods may be followed; "" for none
}

// check returns an error for a request that is not allowed.
func (a allowList) check(verb, uri string) error {
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
	name, selected := strings.CutPrefix(selector, "metadata.name=")
	if !named || !selected || !slices.Contains(a.objects, resource+"/"+name) {
		return errors.New("no object that is referenced is selected")
	}
	return nil
}

// requests are those that the library has sent as a user, by the server's audit log.
type requests struct {
	all       map[string]e2e.AuditEvent // the last stage of each, by audit ID
	open      []string                  // the URIs of watches that have begun and not ended
	forbidden int                       // how many were answered with 403
}

// requests reads the audit log.
func (r *rig) requests(user string) requests {
	r.Helper()
	events, err := r.cluster.AuditEvents()
	if err != nil {
		r.Fatal(err)
	}
	found := requests{all: map[string]e2e.AuditEvent{}}
	for _, event := range events {
		if event.User.Username == user && !strings.HasPrefix(event.UserAgent, byHand) {
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

// finish is what tests end with: no stream is left on the server, by its own count of watches of secrets by name
// and by what the audit log tells of the user; and nothing was sent but what is allowed.
func (r *rig) finish(user string, allowed allowList) requests {
	r.Helper()
	r.eventually("no stream is left", func(ctx context.Context) error {
		streams, err := r.cluster.Metric(ctx, "apiserver_longrunning_requests", map[string]string{
			"resource": "secrets", "scope": "resource", "verb": "WATCH",
		})
		if err == nil && streams != 0 {
			err = fmt.Errorf("%v watches of secrets are open", streams)
		}
		return err
	})
	var found requests
	r.eventually("no watch is open by the audit log", func(context.Context) error {
		if found = r.requests(user); len(found.open) != 0 {
			return fmt.Errorf("open watches of %s: %v", user, found.open)
		}
		return nil
	})
	if len(found.all) == 0 {
		r.Errorf("audit log: got no request of %s, want some: the check saw nothing", user)
	}
	for _, event := range found.all {
		if err := allowed.check(event.Verb, event.RequestURI); err != nil {
			r.Errorf("audit log: %s sent %s %s: %v", user, event.Verb, event.RequestURI, err)
		}
	}
	r.Logf("%s sent %d requests, of which %d were forbidden", user, len(found.all), found.forbidden)
	return found
}

// TestAllowList: what the design does not name is found out.
func TestAllowList(t *testing.T) {
	const named = "/api/v1/namespaces/shop/secrets?fieldSelector=metadata.name%3Dtls"
	agent := allowList{objects: []string{"secrets/tls"}, node: "node-1"}
	for name, tc := range map[string]struct {
		verb, uri string
		allowed   bool
	}{
		"watch":              {"watch", named + "&sendInitialEvents=true&watch=true&allowWatchBookmarks=true", true},
		"list":               {"list", named + "&resourceVersion=7", true},
		"pods of the node":   {"watch", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1&watch=true", true},
		"pods of another":    {"watch", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-2&watch=true", false},
		"all pods":           {"list", "/api/v1/pods", false},
		"get":                {"get", "/api/v1/namespaces/shop/secrets/tls", false},
		"write":              {"update", named, false},
		"unnamed":            {"list", "/api/v1/namespaces/shop/secrets", false},
		"cluster-wide":       {"list", "/api/v1/secrets?fieldSelector=metadata.name%3Dtls", false},
		"other name":         {"list", "/api/v1/namespaces/shop/secrets?fieldSelector=metadata.name%3Dother", false},
		"other kind":         {"list", "/api/v1/namespaces/shop/configmaps?fieldSelector=metadata.name%3Dtls", false},
		"other namespace":    {"list", "/api/v1/namespaces/x/secrets?fieldSelector=metadata.name%3Dtls", false},
		"two selectors":      {"list", named + "&fieldSelector=metadata.name%3Dtls", false},
		"wider selector":     {"list", named + "%2Ctype%3DOpaque", false},
		"limit":              {"list", named + "&limit=500", false},
		"continue":           {"list", named + "&continue=x", false},
		"label selector":     {"list", named + "&labelSelector=a", false},
		"discovery":          {"get", "/api", false},
		"not a query at all": {"list", named + "&%zz", false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := agent.check(tc.verb, tc.uri); (err == nil) != tc.allowed {
				t.Errorf("%s %s: got error %v, want allowed: %v", tc.verb, tc.uri, err, tc.allowed)
			}
		})
	}
}
