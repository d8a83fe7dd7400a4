// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/yaml"
)

func TestAccept(t *testing.T) {
	f := newFixture(t, Options{})
	f.createSecret(newSecret("a"))
	const protobuf = "application/vnd.kubernetes.protobuf"
	for name, test := range map[string]struct {
		accept      string
		contentType string // empty: 406
		kind        string
	}{
		"none":               {"", "application/json", "SecretList"},
		"anything":           {"*/*", "application/json", "SecretList"},
		"application":        {"application/*", "application/json", "SecretList"},
		"yaml":               {"application/yaml", "application/yaml", "SecretList"},
		"protobuf":           {protobuf, protobuf, "SecretList"},
		"first of two":       {protobuf + ",application/json", protobuf, "SecretList"},
		"better of two":      {protobuf + ";q=0.5,application/json", "application/json", "SecretList"},
		"unknown, then json": {"application/cbor,application/json", "application/json", "SecretList"},
		"kubectl get":        {"application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", "application/json", "Table"},
		"table as protobuf":  {protobuf + ";as=Table;v=v1;g=meta.k8s.io,application/json", "application/json", "SecretList"},
		"partial metadata":   {protobuf + ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", protobuf, "PartialObjectMetadataList"},
		"unknown conversion": {"application/json;as=Song;v=v1;g=meta.k8s.io", "", ""},
		"unknown stream":     {"application/json;stream=song", "", ""},
		"unknown":            {"text/html", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.do(http.MethodGet, "/api/v1/secrets", "", "Accept", test.accept)
			if test.contentType == "" {
				status := got.status(t)
				if got.code != 406 || status.Reason != metav1.StatusReasonNotAcceptable || !strings.Contains(status.Message, protobuf) {
					t.Errorf("got %d %s, want 406 with the acceptable media types", got.code, got.body)
				}
				return
			}
			if got.code != 200 || got.header.Get("Content-Type") != test.contentType {
				t.Errorf("got %d %s, want 200 %s", got.code, got.header.Get("Content-Type"), test.contentType)
			}
			if !strings.Contains(string(got.body), test.kind) || strings.HasPrefix(string(got.body), "k8s\x00") != (test.contentType == protobuf) {
				t.Errorf("got body %.60q, want a %s as %s", got.body, test.kind, test.contentType)
			}
		})
	}
}

// TestContentType checks that the server accepts a body in every media type.
func TestContentType(t *testing.T) {
	f := newFixture(t, Options{})
	secret := newSecret("")
	secret.TypeMeta = metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}
	for _, info := range mediaTypes {
		t.Run(info.MediaType, func(t *testing.T) {
			secret.Name = strings.NewReplacer("application/", "", "vnd.", "").Replace(info.MediaType)
			body, err := runtime.Encode(info.Serializer, secret)
			check(t, err)
			got := f.do(http.MethodPost, "/api/v1/namespaces/default/secrets", string(body), "Content-Type", info.MediaType+"; charset=utf-8", "Accept", "application/yaml")
			var created corev1.Secret
			if err := yaml.Unmarshal(got.body, &created); err != nil || got.code != 201 || string(created.Data["key"]) != "value of " {
				t.Errorf("got %d %s, %v, want the secret", got.code, got.body, err)
			}
		})
	}
}

func TestPretty(t *testing.T) {
	f := newFixture(t, Options{})
	for query, want := range map[string]bool{"": false, "?pretty=true": true, "?pretty=false": false, "?pretty=x": false} {
		body := string(f.do(http.MethodGet, "/api/v1/namespaces/default"+query, "").body)
		if got := strings.Contains(body, "\n  \"kind\""); got != want {
			t.Errorf("%q: got indented %t, want %t\n%s", query, got, want, body)
		}
	}
}

// TestMetadataClient reads with the metadata client, which asks for protobuf.
func TestMetadataClient(t *testing.T) {
	f := newFixture(t, Options{CustomResources: customResources})
	client, err := metadata.NewForConfig(f.Config())
	check(t, err)
	for r, created := range map[*resource]metav1.Object{secrets: f.createSecret(newSecret("a")), customResources[0].resource(): f.createWidget("a", 1)} {
		t.Run(r.name, func(t *testing.T) {
			objects := client.Resource(r.gvr()).Namespace("default")
			one, err := objects.Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil || one.UID != created.GetUID() {
				t.Errorf("got %v, %v, want the metadata", one, err)
			}
			list, err := objects.List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != 1 || list.Items[0].UID != created.GetUID() || list.ResourceVersion != f.ResourceVersion() {
				t.Errorf("got %v, %v, want the metadata of a", list, err)
			}
			w, err := objects.Watch(t.Context(), named("a", watchList()))
			check(t, err)
			defer w.Stop()
			if event := expect(t, w, watch.Added); metaOf(t, event).GetUID() != created.GetUID() {
				t.Errorf("got %v, want the metadata of a", event)
			}
			expect(t, w, watch.Bookmark)
			if err := objects.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
				t.Errorf("Delete: got %v, want no error", err)
			}
		})
	}
}
