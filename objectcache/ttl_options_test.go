// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
)

func TestTTLNewErrors(t *testing.T) {
	for name, options := range map[string]objectcache.StoreOptions{
		"new TTL store: resource":    objectcache.TTLOptions{},
		"new direct store: resource": objectcache.DirectOptions{},
	} {
		if store, err := objectcache.NewStore(resource.Secrets(nil), options); store != nil || err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, %v, want no store and an error with %q", store, err, name)
		}
	}
}

func TestTTLFromNode(t *testing.T) {
	node := func(ttl string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.ObjectTTLAnnotationKey: ttl}}}
	}
	tests := map[string]struct {
		node *corev1.Node
		err  error
		want time.Duration
		ok   bool
	}{
		"300 s":         {node: node("300"), want: 5 * time.Minute, ok: true},
		"0":             {node: node("0"), ok: true},
		"negative":      {node: node("-1")},
		"no number":     {node: node("1m")},
		"no annotation": {node: &corev1.Node{}},
		"no node":       {},
		"error":         {node: node("300"), err: errors.New("no")},
		"too large":     {node: node("99999999999999999999")},
	}
	for name, test := range tests {
		got, ok := objectcache.TTLFromNode(func() (*corev1.Node, error) { return test.node, test.err })()
		if ok != test.ok || ok && got != test.want {
			t.Errorf("%s: got %v, %v, want %v, %v", name, got, ok, test.want, test.ok)
		}
	}
}

// Every request is a GET of a name that a Get has asked for. The permissions say so.
func TestTTLRequests(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		r.AddReference(namespace, "never-read", "pod")
		time.Sleep(time.Hour)
		r.mustGet("tls")
		for _, request := range r.server.Requests() {
			if request.Verb != "create" && (request.Verb != "get" || request.Path != "/api/v1/namespaces/default/secrets/tls" || len(request.Query) > 0) {
				t.Errorf("got %s %s?%s, want GETs of tls", request.Verb, request.Path, request.Query.Encode())
			}
		}
		if got := r.phase("never-read"); got != objectcache.PhasePending {
			t.Errorf("phase without a Get: got %s, want Pending", got)
		}
	})
	for name, options := range map[string]objectcache.StoreOptions{"TTL": objectcache.TTLOptions{}, "direct": objectcache.DirectOptions{}} {
		beforeRun(t, options, func(t *testing.T, r *rig) {
			if got := r.Permissions(); got.Resource.Resource != "secrets" || got.ClusterScoped || !slices.Equal(got.Verbs, []string{"get"}) {
				t.Errorf("%s: got %+v, want get of secrets", name, got)
			}
		})
	}
}
