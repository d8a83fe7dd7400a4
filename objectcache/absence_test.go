// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/clients"
)

// answerGets makes the server answer every GET of an object with 404.
func answerGets(server *apiserver.Server, contentType, body string) {
	server.Wrap(func(w http.ResponseWriter, r *http.Request, request apiserver.Request, next http.HandlerFunc) {
		if request.Verb != "get" {
			next(w, r)
			return
		}
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, body)
	})
}

// Servers fill the kind of a NotFound in their own ways. It is an absence if it names the
// object. Any other 404 is one of the path.
func TestNotFoundOfEachServer(t *testing.T) {
	details := func(details string) string {
		return `{"kind":"Status","apiVersion":"v1","status":"Failure","code":404,"reason":"NotFound","details":{` + details + "}}"
	}
	const json = "application/json"
	group := schema.GroupVersion{Group: "net.example.com", Version: "v1"}
	gateways, policies := group.WithResource("gateways"), group.WithResource("policies")
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	tests := map[string]struct {
		resource          schema.GroupVersionResource
		contentType, body string
		absent            bool
	}{
		"the plural":               {secrets, json, details(`"name":"tls","kind":"secrets"`), true},
		"the kind":                 {secrets, json, details(`"name":"tls","kind":"Secret"`), true},
		"the singular":             {secrets, json, details(`"name":"tls","kind":"secret"`), true},
		"no kind":                  {secrets, json, details(`"name":"tls"`), true},
		"the group in the details": {gateways, json, details(`"name":"tls","group":"net.example.com","kind":"gateways"`), true},
		"the plural and the group": {gateways, json, details(`"name":"tls","kind":"gateways.net.example.com"`), true},
		"a kind with -ay":          {gateways, json, details(`"name":"tls","kind":"Gateway"`), true},
		"the kind and the group":   {policies, json, details(`"name":"tls","kind":"Policy.net.example.com"`), true},
		"a kind with -cy":          {policies, json, details(`"name":"tls","kind":"Policy"`), true},
		"another kind":             {secrets, json, details(`"name":"tls","kind":"Namespace"`), false},
		"another plural":           {secrets, json, details(`"name":"tls","kind":"clusters"`), false},
		"another name":             {secrets, json, details(`"name":"other","kind":"secrets"`), false},
		"another name, no kind":    {secrets, json, details(`"name":"other"`), false},
		"no name":                  {secrets, json, details(`"kind":"secrets"`), false},
		"no details":               {secrets, json, details(""), false},
		"another reason":           {secrets, json, strings.Replace(details(`"name":"tls"`), "NotFound", "Expired", 1), false},
		"no reason":                {secrets, json, strings.Replace(details(`"name":"tls"`), "NotFound", "", 1), false},
		"the path, of client-go":   {secrets, json, details(`"name":"tls","causes":[{"reason":"UnexpectedServerResponse"}]`), false},
		"the path, of kube":        {secrets, "text/plain", "404 page not found", false},
		"a proxy's page":           {secrets, "text/html", "<html>no</html>", false},
		"a proxy's page as JSON":   {secrets, json, "<html>no</html>", false},
		"a proxy's JSON":           {secrets, json, `{"code":404,"reason":"NotFound","details":{"name":"tls"}}`, false},
		"a proxy's empty answer":   {secrets, json, "", false},
	}
	stores := map[string]objectcache.StoreOptions{"TTL": objectcache.TTLOptions{}, "direct": objectcache.DirectOptions{}}
	for name, test := range tests {
		for strategy, options := range stores {
			t.Run(name+"/"+strategy, func(t *testing.T) {
				onCustomServer(t, func(t *testing.T, server *apiserver.Server) {
					answerGets(server, test.contentType, test.body)
					resource := clients.Dynamic(dynamicClient(t, server.Config()), test.resource)
					err, _ := getOnceBy(t, resource, types.NamespacedName{Namespace: namespace, Name: "tls"}, options)
					if apierrors.IsNotFound(err) != test.absent {
						t.Errorf("got %v, want NotFound: %v", err, test.absent)
					}
					if !test.absent && !errors.Is(err, objectcache.ErrNotSynced) {
						t.Errorf("got %v, want ErrNotSynced", err)
					}
				})
			})
		}
	}
}

// The kind of a typed resource is known, however it forms its plural.
func TestNotFoundOfAnIrregularPlural(t *testing.T) {
	onCustomServer(t, func(t *testing.T, server *apiserver.Server) {
		answerGets(server, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Failure",
			"code":404,"reason":"NotFound","details":{"name":"tls","kind":"Widget"}}`)
		resource := resource.FromConfig[*Widget, *WidgetList](server.Config(), widgets.GroupVersion().WithResource("widgetry"))
		store, err := objectcache.NewTTLStore(resource, objectcache.TTLOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer runStore(t.Context(), t, store)()
		store.AddReference(namespace, "tls", "owner")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := store.Get(ctx, namespace, "tls"); !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want NotFound", err)
		}
	})
}
