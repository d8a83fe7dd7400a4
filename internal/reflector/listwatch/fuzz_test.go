// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	restclientwatch "k8s.io/client-go/rest/watch"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

// clientGoStream is client-go's decoder of a stream.
func clientGoStream(body []byte) watch.Decoder {
	mediaType := runtime.ContentTypeProtobuf
	if bytes.HasPrefix(body, []byte("{")) {
		mediaType = runtime.ContentTypeJSON
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	reader := info.StreamSerializer.NewFrameReader(io.NopCloser(bytes.NewReader(body)))
	frames := streaming.NewDecoder(reader, info.StreamSerializer.Serializer)
	return restclientwatch.NewDecoder(frames, scheme.Codecs.WithoutConversion().DecoderToVersion(info.Serializer, schema.GroupVersion{}))
}

// FuzzClientGo compares a stream with client-go's decoder: what that decodes is decoded to
// the same, or refused if it is of another type. client-go refuses unknown types of events,
// and objects without a kind.
func FuzzClientGo(f *testing.F) {
	addFrames(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		stream, reference := streamOf(bytes.NewReader(body)), clientGoStream(body)
		defer reference.Close()
		for i := range len(body) + 1 {
			kind, object, err := reference.Decode()
			got, gotErr := stream.Next()
			checkSecrecy(t, gotErr)
			if err != nil {
				if errors.Is(err, io.EOF) && !errors.Is(gotErr, io.EOF) && gotErr == nil {
					t.Errorf("event %d: got %s, want the end of the stream", i, got.Type)
				}
				return
			}
			if _, ok := object.(*corev1.Secret); !ok && kind != watch.Error {
				if !errors.Is(gotErr, cache.ErrMalformed) {
					t.Errorf("event %d: got %s %T and %v, want ErrMalformed", i, got.Type, got.Object, gotErr)
				}
				return
			}
			if gotErr != nil || got.Type != kind || !equality.Semantic.DeepEqual(got.Object, object) {
				t.Fatalf("event %d: got %s %T and %v, want %s %T", i, got.Type, got.Object, gotErr, kind, object)
			}
		}
	})
}

// addFrames adds frames of each type, in both encodings, and streams that are cut.
func addFrames(f *testing.F) {
	status := &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Code: 410, Reason: metav1.StatusReasonExpired}
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	for _, frame := range framings {
		whole := slices.Concat(frame(f, watch.Added, canarySecret()), frame(f, watch.Bookmark, named("")), frame(f, watch.Deleted, pod),
			frame(f, watch.Error, status))
		f.Add(whole)
		for n := 1; n < len(whole); n += len(whole)/7 + 1 {
			f.Add(whole[:n])
		}
		f.Add(frame(f, watch.Bookmark, pod))
		f.Add(frame(f, "RENAMED", canarySecret()))
	}
	f.Add([]byte(`{"type":"ADDED","object":{}}{"type":"ADDED","object":null}{}`))
	f.Add([]byte(`{"type":"ADDED","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[{}]}}`))
	f.Add([]byte{0, 0, 0, 1, 10})
}

// FuzzSplits reads a stream in pieces, and cut at any byte. Neither changes the events
// before.
func FuzzSplits(f *testing.F) {
	for _, frame := range framings {
		body := slices.Concat(frame(f, watch.Added, canarySecret()), frame(f, watch.Bookmark, named("")), frame(f, watch.Modified, named("tls")))
		f.Add(body, []byte{1}, uint16(0))
		f.Add(body, []byte{0, 200, 3}, uint16(150))
	}
	f.Fuzz(func(t *testing.T, body, sizes []byte, cut uint16) {
		whole, wholeErr := drain(streamOf(bytes.NewReader(body)))
		pieces, piecesErr := drain(streamOf(&inPieces{body: body, sizes: sizes}))
		if !equality.Semantic.DeepEqual(pieces, whole) || failure.Of(piecesErr) != failure.Of(wholeErr) {
			t.Errorf("in pieces: got %d events and %v, want %d and %v", len(pieces), piecesErr, len(whole), wholeErr)
		}
		rest := body[:int(cut)%(len(body)+1)]
		part, partErr := drain(streamOf(&inPieces{body: rest, sizes: sizes}))
		checkSecrecy(t, partErr)
		if len(part) > len(whole) || !equality.Semantic.DeepEqual(part, whole[:len(part)]) {
			t.Errorf("cut after %d bytes: got %d events, want the first of %d", len(rest), len(part), len(whole))
		}
		if class := failure.Of(partErr); errors.Is(wholeErr, io.EOF) && class != failure.Unreachable {
			t.Errorf("cut after %d bytes: got %s (%v), want the connection at fault", len(rest), class, partErr)
		}
	})
}

// inPieces is a body that comes in pieces of these sizes, over and over.
type inPieces struct {
	body, sizes []byte
	reads       int
}

func (p *inPieces) Read(b []byte) (int, error) {
	size := 1
	if len(p.sizes) > 0 {
		size += int(p.sizes[p.reads%len(p.sizes)])
	}
	p.reads++
	n := copy(b[:min(len(b), size)], p.body)
	if p.body = p.body[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// FuzzAnswer decodes any answer to a list or a get, into types with and without Go types.
// What client-go's decoder returns for a typed object is returned, if it is of that type,
// group and version. An error holds no object data.
func FuzzAnswer(f *testing.F) {
	two := &corev1.SecretList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "SecretList"}, ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	two.Items = []corev1.Secret{*canarySecret(), *named("other")}
	for _, mediaType := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
		for _, object := range []runtime.Object{two, canarySecret(), &corev1.SecretList{TypeMeta: two.TypeMeta, ListMeta: metav1.ListMeta{Continue: "x"}},
			&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: 410, Reason: "Expired"}} {
			body, err := runtime.Encode(info.Serializer, object)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(body, byte(0))
			f.Add(body, byte(1))
			f.Add(body[:len(body)/2], byte(2))
		}
	}
	for _, text := range []string{"<html>", "", "null", "[]", "{}", `{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[{"object":{}}]}`,
		`{"kind":"List","apiVersion":"v1","items":[{"kind":"Secret","apiVersion":"v1"},null,7]}`,
		`{"kind":"SecretList","apiVersion":"v1","items":[{"metadata":null},{}],"metadata":{"resourceVersion":0}}`,
		`{"kind":"SecretList","apiVersion":"v1","items":{"a":{}}}`, `{"kind":"Secret","apiVersion":"v1","metadata":[]}`,
		`{"data":{"password":"` + canary + `"}}`, `{"kind":"Secret","data":"` + canary + `"}`} {
		for kind := range byte(6) {
			f.Add([]byte(text), kind)
		}
	}
	into := []func() runtime.Object{
		func() runtime.Object { return &corev1.SecretList{} },
		func() runtime.Object { return &corev1.Secret{} },
		func() runtime.Object { return &unstructured.UnstructuredList{} },
		func() runtime.Object { return &unstructured.Unstructured{} },
		func() runtime.Object { return &metav1.PartialObjectMetadataList{} },
		func() runtime.Object { return &metav1.PartialObjectMetadata{} },
	}
	f.Fuzz(func(t *testing.T, body []byte, kind byte) {
		newObject := into[int(kind)%len(into)]
		resource := &RESTResource{Client: versionClient{version: corev1.SchemeGroupVersion}, NewList: newObject}
		got, err := resource.decodeAnswer(body, "", newObject())
		checkSecrecy(t, err)
		if (got == nil) == (err == nil) {
			t.Fatalf("got %T and %v, want an object or an error", got, err)
		}
		if _, ok := newObject().(runtime.Unstructured); ok || !bytes.HasPrefix(body, []byte("{")) && !bytes.HasPrefix(body, protobufPrefix) {
			return
		}
		want, kindOfWant, wantErr := scheme.Codecs.UniversalDeserializer().Decode(body, nil, newObject())
		var status apierrors.APIStatus
		if _, isStatus := want.(*metav1.Status); isStatus && errors.As(err, &status) {
			return
		}
		typeOfWant := reflect.TypeOf(newObject())
		if wantErr == nil && (reflect.TypeOf(want) != typeOfWant || kindOfWant.GroupVersion() != corev1.SchemeGroupVersion &&
			*kindOfWant != metav1.SchemeGroupVersion.WithKind(typeOfWant.Elem().Name())) {
			want, wantErr = nil, cache.ErrMalformed
		}
		for _, object := range []runtime.Object{got, want} {
			if object != nil {
				object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // the codecs of typed clients drop it
			}
		}
		if (err == nil) != (wantErr == nil) || err == nil && !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("got %T and %v, want %T and %v", got, err, want, wantErr)
		}
	})
}

// FuzzResponse gets any response to a list: a code, a Retry-After and a body. The class of
// the error is that of the code, and it holds no object data and no time to wait below zero.
func FuzzResponse(f *testing.F) {
	status := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":"Expired","code":410,"details":{"retryAfterSeconds":-5}}`
	for _, code := range []uint16{200, 201, 204, 301, 304, 400, 401, 403, 404, 408, 409, 410, 422, 429, 500, 503, 504, 599} {
		code -= 100
		f.Add(code, "1", "application/json", status)
		f.Add(code, "99999999999", "text/html", "<html>"+canary)
		f.Add(code, "-1", "application/json", `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"7"}}`)
		f.Add(code, "Wed, 21 Oct 2015 07:28:00 GMT", "application/vnd.kubernetes.protobuf", "k8s\x00")
	}
	f.Fuzz(func(t *testing.T, code uint16, retryAfter, contentType, body string) {
		client := clientOf(t, "https://example.test", func(r *http.Request) *http.Response {
			return &http.Response{
				StatusCode: int(code%500) + 100, Header: http.Header{"Content-Type": {contentType}, "Retry-After": {retryAfter}},
				Body: io.NopCloser(strings.NewReader(body)), Request: r,
			}
		})
		sent := int(code%500) + 100
		list, err := FromREST(secretsOf(client), "default", "tls").List(t.Context(), metav1.ListOptions{})
		if (list == nil) == (err == nil) {
			t.Fatalf("got %T and %v, want a list or an error", list, err)
		}
		if !strings.Contains(body, "Status") { // it may quote what it likes
			checkSecrecy(t, redact.Error(err)) // as a reflector does
		}
		if wait := failure.From(err).Outcome().RetryAfter; wait < 0 || wait > (1<<31)*time.Second {
			t.Errorf("%d with Retry-After %q: got a time to wait of %v", sent, retryAfter, wait)
		}
		class := failure.Of(err)
		switch {
		case sent >= 400 && err == nil, class == failure.Unreachable && sent >= 400:
			t.Errorf("%d: got %q (%v), want the class of an answer", sent, class, err)
		case strings.Contains(body, "Status"): // its code counts
		case !isMediaType(contentType): // client-go makes 500 of it
		case sent == 401 && class != failure.Unauthorized, sent == 403 && class != failure.Forbidden, sent == 429 && class != failure.Throttled,
			sent == 410 && class != failure.Expired, sent >= 500 && class != failure.Failed, sent == 404 && class != failure.Refused:
			t.Errorf("%d: got %q (%v)", sent, class, err)
		}
	})
}

func isMediaType(text string) bool {
	_, _, err := mime.ParseMediaType(text)
	return text == "" || err == nil
}

func clientOf(t testing.TB, host string, answer answering) rest.Interface {
	t.Helper()
	client, err := rest.RESTClientFor(&rest.Config{
		Host: host, APIPath: "/api", Transport: answer, QPS: -1,
		ContentConfig: rest.ContentConfig{GroupVersion: &corev1.SchemeGroupVersion, NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
	})
	if err != nil {
		t.Skip("no client of that config")
	}
	return client
}

// FuzzSelector selects any name that a path may have. A server finds that one name in the
// selector, and nothing else in the query, wherever the base URL leads.
func FuzzSelector(f *testing.F) {
	for i, name := range []string{"tls", "a,b", "a=b", `a\`, `a\,b`, "a!=b", "a b", "a&watch=1", "a%2Fb", "a?b", "a#b", "ä", "\xff", "a+b", ";", "a\nb"} {
		f.Add([]string{"", "/", "/base", "/k8s/clusters/c-1", "/a%2fb", "/a?b=c", "/..", "//x"}[i%8], name, "5")
	}
	f.Fuzz(func(t *testing.T, base, name, version string) {
		if !utf8.ValidString(name) {
			return // no object has it, and the parser of selectors changes it
		}
		var sent *url.URL
		client := clientOf(t, "https://example.test"+base, func(r *http.Request) *http.Response {
			sent = r.URL
			return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: http.NoBody, Request: r}
		})
		_, _ = FromREST(secretsOf(client), "default", name).List(t.Context(), metav1.ListOptions{ResourceVersion: version})
		if sent == nil {
			return // client-go refuses that URL
		}
		again, err := url.ParseRequestURI(sent.RequestURI())
		if err != nil {
			t.Fatalf("the request line %q: %v", sent.RequestURI(), err)
		}
		if prefix, ok := strings.CutSuffix(again.Path, "/api/v1/namespaces/default/secrets"); !ok || strings.Contains(prefix, "/api/") && !strings.Contains(base, "api") {
			t.Errorf("path of base %q: got %q", base, again.Path)
		}
		query := again.Query()
		selector, err := fields.ParseSelector(query.Get("fieldSelector"))
		if err != nil || len(selector.Requirements()) != 1 || selector.Requirements()[0].Value != name || selector.Requirements()[0].Field != metav1.ObjectNameField {
			t.Errorf("selector of name %q: got %q and %v", name, query["fieldSelector"], err)
		}
		if query.Get("resourceVersion") != version || len(query) != 1+min(len(version), 1) {
			t.Errorf("query of version %s: got %v", strconv.Quote(version), query)
		}
	})
}
