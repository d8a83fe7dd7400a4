// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
)

// recordedRequests answers each request with an empty 404, and keeps its URL.
type recordedRequests struct{ urls []*url.URL }

func (r *recordedRequests) RoundTrip(request *http.Request) (*http.Response, error) {
	r.urls = append(r.urls, request.URL)
	return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: http.NoBody, Request: request}, nil
}

var (
	dnsLabel     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	dnsSubdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// canBeSecret and canBeAny are Kubernetes' rules for names of Secrets, and for names of any
// kind, written in another way than in apimachinery.
func canBeSecret(name string) bool { return len(name) <= 253 && dnsSubdomain.MatchString(name) }
func canBeAny(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/%")
}

// FuzzKey asks for any key, of Secrets and of a kind without types, at any base URL. A key
// that no object can have is ErrInvalidName and sends nothing. For any other key there is one
// GET of that object, or one list that selects its name, and nothing else.
func FuzzKey(f *testing.F) {
	names := []string{"tls", "", ".", "..", "a/b", "a%2Fb", "A", "a_b", "a?b", "a#b", "a,b=c", `a\`, "ä", "\xff", "a\x00", "a b", "-a", "a.", "a..b",
		"../../secrets", strings.Repeat("a", 254), "a;b", "a&watch=true", "system:node"}
	for i, name := range names {
		f.Add("", "default", name)
		f.Add([]string{"/", "/base/", "/k8s/clusters/c-x%2fy", "//a", "/..", "?a", "#a"}[i%7], names[(i*7)%len(names)], name)
	}
	ofSecrets := &recordedRequests{}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://example.test", QPS: -1, Transport: ofSecrets})
	if err != nil {
		f.Fatal(err)
	}
	secrets, err := objectcache.NewDirectStore(resource.Secrets(client), objectcache.DirectOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, base, namespace, name string) {
		key := types.NamespacedName{Namespace: namespace, Name: name}
		checkKey(t, secrets, ofSecrets, "/api/v1/namespaces/"+namespace+"/secrets", key, dnsLabel.MatchString(namespace) && canBeSecret(name))

		ofWidgets := &recordedRequests{}
		config := &rest.Config{Host: "https://example.test" + base, QPS: -1, Transport: ofWidgets}
		path := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
		widgets, err := objectcache.NewDirectStore(
			resource.FromConfig[*unstructured.Unstructured, *unstructured.UnstructuredList](config, path), objectcache.DirectOptions{})
		if err != nil {
			return // client-go makes no client of that base URL
		}
		checkKey(t, widgets, ofWidgets, "/apis/example.com/v1/namespaces/"+namespace+"/widgets", key, dnsLabel.MatchString(namespace) && canBeAny(name))
	})
}

// checkKey checks the requests of a store for a key. path is that of the list.
func checkKey[T cache.Object](t *testing.T, store *objectcache.DirectStore[T], requests *recordedRequests, path string, key types.NamespacedName, valid bool) {
	t.Helper()
	requests.urls = nil
	store.AddReference(key.Namespace, key.Name, "owner")
	defer store.DeleteReference(key.Namespace, key.Name, "owner")
	_, err := store.Get(t.Context(), key.Namespace, key.Name)
	if errors.Is(err, objectcache.ErrInvalidName) == valid {
		t.Fatalf("Get of %q: got %v, and the name is valid: %t", key, err, valid)
	}
	if !valid && len(requests.urls) > 0 || err == nil {
		t.Fatalf("Get of %q: got %v and the requests %v", key, err, requests.urls)
	}
	for _, sent := range requests.urls {
		again, err := url.ParseRequestURI(sent.RequestURI())
		if err != nil {
			t.Fatalf("the request line %q: %v", sent.RequestURI(), err)
		}
		switch selector, err := fields.ParseSelector(again.Query().Get("fieldSelector")); {
		case strings.HasSuffix(again.Path, path+"/"+key.Name) && len(again.Query()) == 0:
		case strings.HasSuffix(again.Path, path) && err == nil && len(selector.Requirements()) == 1 &&
			selector.Requirements()[0].Field == "metadata.name" && (selector.Requirements()[0].Value == key.Name || !utf8.ValidString(key.Name)) &&
			!slices.Contains(again.Query()["watch"], "true"):
		default:
			t.Errorf("Get of %q: got a request for %s", key, sent)
		}
	}
}
