// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/test/apiserver"
)

// A server sorts the terms of a field selector, and authorizes the first name. Whatever terms the selector of the
// resource has, a source's requests are authorized as its own name. What the selector excludes is absent.
func TestSelectorTermsOfNames(t *testing.T) {
	tests := map[string]struct {
		selector string
		want     string // of the query
		selects  bool   // by name and namespace
		listed   int
	}{
		"none":                    {"", "metadata.name=tls", true, 1},
		"another field":           {"type=Opaque", "metadata.name=tls,type=Opaque", true, 1},
		"another type":            {"type=kubernetes.io/tls", "metadata.name=tls,type=kubernetes.io/tls", true, 0},
		"the name":                {"metadata.name=tls", "metadata.name=tls", true, 1},
		"the name twice":          {"metadata.name==tls,type=Opaque,metadata.name=tls", "metadata.name=tls,type=Opaque", true, 1},
		"an earlier name":         {"metadata.name=a", "metadata.name=tls,metadata.name!=tls", false, 0},
		"a later name":            {"metadata.name=z,type=Opaque", "metadata.name=tls,metadata.name!=tls", false, 0},
		"two names":               {"metadata.name=tls,metadata.name=a", "metadata.name=tls,metadata.name!=tls", false, 0},
		"not the name":            {"metadata.name!=tls", "metadata.name=tls,metadata.name!=tls", false, 0},
		"not another name":        {"metadata.name!=a", "metadata.name=tls", true, 1},
		"the namespace":           {"metadata.namespace=default", "metadata.name=tls", true, 1},
		"another namespace":       {"metadata.namespace=other", "metadata.name=tls,metadata.name!=tls", false, 0},
		"not the namespace":       {"metadata.namespace!=default", "metadata.name=tls,metadata.name!=tls", false, 0},
		"a value that is escaped": {`metadata.name!=a\,b`, "metadata.name=tls", true, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWire(t, runtime.ContentTypeProtobuf)
				w.write("tls", "1")
				w.server.Authorize(func(request apiserver.Request) bool { return request.Name == "tls" })
				resource := secretsOf(w.client.CoreV1().RESTClient())
				resource.Selector = func(string) (labels, fields string) { return "", test.selector }
				if got := resource.Selects("default", "tls"); got != test.selects {
					t.Errorf("Selects: got %v, want %v", got, test.selects)
				}
				list, err := FromREST(resource, "default", "tls").List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatalf("List: got %v, want a list", err)
				}
				if got := meta.LenList(list); got != test.listed {
					t.Errorf("List: got %d objects, want %d", got, test.listed)
				}
				requests := w.server.Requests()
				if got := requests[len(requests)-1].Query.Get("fieldSelector"); got != test.want {
					t.Errorf("field selector: got %q, want %q", got, test.want)
				}
			})
		})
	}
}
