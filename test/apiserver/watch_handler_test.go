// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestWatchOpens(t *testing.T) {
	f := newFixture(t, Options{})
	first := f.createSecret(newSecret("a"))
	second := f.updateSecret(first, "new")
	f.createSecret(newSecret("b"))
	for name, test := range map[string]struct {
		options metav1.ListOptions
		want    []string // type, name or version of the first events
	}{
		"most recent":     {metav1.ListOptions{}, []string{"ADDED a", "ADDED b"}},
		"any version":     {metav1.ListOptions{ResourceVersion: "0"}, []string{"ADDED a", "ADDED b"}},
		"replay":          {metav1.ListOptions{ResourceVersion: first.ResourceVersion}, []string{"MODIFIED a", "ADDED b"}},
		"later replay":    {metav1.ListOptions{ResourceVersion: second.ResourceVersion}, []string{"ADDED b"}},
		"named":           {named("b", metav1.ListOptions{}), []string{"ADDED b"}},
		"watchlist":       {watchList(), []string{"ADDED a", "ADDED b", "BOOKMARK end"}},
		"named watchlist": {named("b", watchList()), []string{"ADDED b", "BOOKMARK end"}},
		"absent":          {named("c", watchList()), []string{"BOOKMARK end"}},
		"watchlist at a version": {
			func() metav1.ListOptions {
				options := watchList()
				options.ResourceVersion = second.ResourceVersion
				return options
			}(),
			[]string{"ADDED a", "ADDED b", "BOOKMARK end"},
		},
		// As in kube-apiserver, a watch at "" with bookmarks but without sendInitialEvents is a WatchList.
		"legacy with bookmarks": {metav1.ListOptions{AllowWatchBookmarks: true}, []string{"ADDED a", "ADDED b", "BOOKMARK end"}},
		"no initial events": {
			metav1.ListOptions{
				SendInitialEvents: new(false), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
				ResourceVersion: first.ResourceVersion, AllowWatchBookmarks: true,
			},
			[]string{"MODIFIED a", "ADDED b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := f.watchSecrets(test.options)
			defer w.Stop()
			for _, want := range test.want {
				kind, name, _ := strings.Cut(want, " ")
				event := expect(t, w, watch.EventType(kind))
				got := metaOf(t, event)
				if kind != "BOOKMARK" && got.GetName() != name {
					t.Errorf("got %s of %s, want %s", event.Type, got.GetName(), want)
				}
				if kind == "BOOKMARK" && (got.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" ||
					got.GetResourceVersion() != f.ResourceVersion()) {
					t.Errorf("got %v, want the end of the initial events at version %s", got, f.ResourceVersion())
				}
				if _, ok := event.Object.(*corev1.Secret); !ok {
					t.Errorf("got a %T, want a Secret", event.Object)
				}
			}
		})
	}
}

// TestWatchErrorsInStream checks that errors of the watch cache are ERROR events in a stream with status 200.
func TestWatchErrorsInStream(t *testing.T) {
	f := newFixture(t, Options{})
	f.createSecret(newSecret("a"))
	f.Compact()
	for name, test := range map[string]struct {
		query        string
		want         metav1.Status
		messageParts []string
	}{
		"compacted": {
			"resourceVersion=7",
			metav1.Status{Code: http.StatusGone, Reason: metav1.StatusReasonExpired},
			[]string{"too old resource version: 7 (" + f.ResourceVersion() + ")"},
		},
		"future": {
			"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=99999999",
			metav1.Status{Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout},
			[]string{"Too large resource version: 99999999, current: " + f.ResourceVersion()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.do(http.MethodGet, "/api/v1/namespaces/default/secrets?watch=true&"+test.query, "")
			if got.code != http.StatusOK {
				t.Fatalf("got code %d, want 200", got.code)
			}
			var event struct {
				Type   string
				Object metav1.Status
			}
			if err := json.Unmarshal(got.body, &event); err != nil {
				t.Fatalf("got %q: %v", got.body, err)
			}
			if event.Type != "ERROR" || event.Object.Code != test.want.Code || event.Object.Reason != test.want.Reason {
				t.Errorf("got %+v, want ERROR with %d %s", event, test.want.Code, test.want.Reason)
			}
			for _, part := range test.messageParts {
				if !strings.Contains(event.Object.Message, part) {
					t.Errorf("got message %q, want %q in it", event.Object.Message, part)
				}
			}
			if test.want.Code == http.StatusGatewayTimeout {
				details := event.Object.Details
				if details == nil || details.RetryAfterSeconds != 1 || len(details.Causes) != 1 ||
					details.Causes[0].Type != metav1.CauseTypeResourceVersionTooLarge {
					t.Errorf("got details %+v, want the cause ResourceVersionTooLarge and a retry after 1 s", details)
				}
			}
		})
	}
	if got := f.TotalStreams(); got != 0 {
		t.Errorf("got %d open streams, want none", got)
	}
}

func TestWatchListDisabled(t *testing.T) {
	f := newFixture(t, Options{DisableWatchList: true})
	f.createSecret(newSecret("a"))
	_, err := f.client.CoreV1().Secrets("default").Watch(t.Context(), watchList())
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(),
		"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled") {
		t.Errorf("got error %v, want 422 that forbids sendInitialEvents", err)
	}
	// A watch without sendInitialEvents still works, without a bookmark at the end of the state.
	w := f.watchSecrets(metav1.ListOptions{AllowWatchBookmarks: true})
	expect(t, w, watch.Added)
	f.createSecret(newSecret("b"))
	expect(t, w, watch.Added)
}

// TestWatchTimes checks the duration of a watch and the times of its bookmarks, in virtual time.
func TestWatchTimes(t *testing.T) {
	for name, test := range map[string]struct {
		timeout   *int64
		interval  time.Duration
		bookmarks bool
		atLeast   time.Duration
		atMost    time.Duration
		wantMarks []time.Duration // all bookmarks, if not nil
	}{
		"timeout":            {timeout: new(int64(90)), atLeast: 90 * time.Second, atMost: 90 * time.Second, wantMarks: []time.Duration{}},
		"default":            {atLeast: 30 * time.Minute, atMost: time.Hour},
		"zero":               {timeout: new(int64), atLeast: 30 * time.Minute, atMost: time.Hour},
		"default, bookmarks": {bookmarks: true, atLeast: 30 * time.Minute, atMost: time.Hour},
		"bookmarks every minute and before the end": {
			timeout: new(int64(150)), bookmarks: true, atLeast: 150 * time.Second, atMost: 150 * time.Second,
			wantMarks: []time.Duration{time.Minute, 2 * time.Minute, 148 * time.Second},
		},
		"too short for a bookmark": {
			timeout: new(int64(1)), bookmarks: true, atLeast: time.Second, atMost: time.Second, wantMarks: []time.Duration{},
		},
		"another interval": {
			timeout: new(int64(25)), interval: 10 * time.Second, bookmarks: true, atLeast: 25 * time.Second, atMost: 25 * time.Second,
			wantMarks: []time.Duration{10 * time.Second, 20 * time.Second, 23 * time.Second},
		},
	} {
		t.Run(name, inBubble(func(t *testing.T) {
			f := newFixture(t, Options{InMemory: true, BookmarkInterval: test.interval})
			w := f.watchSecrets(metav1.ListOptions{
				ResourceVersion: f.ResourceVersion(), TimeoutSeconds: test.timeout, AllowWatchBookmarks: test.bookmarks,
			})
			begin := time.Now()
			marks := []time.Duration{}
			for range w.ResultChan() {
				marks = append(marks, time.Since(begin))
			}
			if lasted := time.Since(begin); lasted < test.atLeast || lasted > test.atMost {
				t.Errorf("got a watch of %v, want %v to %v", lasted, test.atLeast, test.atMost)
			}
			if test.wantMarks != nil && len(marks) != len(test.wantMarks) {
				t.Fatalf("got bookmarks at %v, want %v", marks, test.wantMarks)
			}
			for i, want := range test.wantMarks {
				if marks[i] != want {
					t.Errorf("got bookmarks at %v, want %v", marks, test.wantMarks)
				}
			}
			if test.bookmarks && test.wantMarks == nil && len(marks) < 29 {
				t.Errorf("got %d bookmarks, want one a minute", len(marks))
			}
		}))
	}
}

// TestWatchAtFutureVersion checks that a plain watch at a future version is silent until the server has passed it.
func TestWatchAtFutureVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{InMemory: true})
		future := formatVersion(f.store.currentVersion() + 2)
		w := f.watchSecrets(metav1.ListOptions{ResourceVersion: future, AllowWatchBookmarks: true})
		f.createSecret(newSecret("a"))
		time.Sleep(10 * time.Minute)
		select {
		case event := <-w.ResultChan():
			t.Fatalf("got %v, want no event", event)
		default:
		}
		f.createSecret(newSecret("b")) // gets that version
		f.createSecret(newSecret("c"))
		for {
			event := <-w.ResultChan()
			if event.Type == watch.Bookmark && metaOf(t, event).GetResourceVersion() == future {
				continue
			}
			if got := metaOf(t, event); event.Type != watch.Added || got.GetName() != "c" {
				t.Errorf("got %s %s, want the first write after version %s, c", event.Type, got.GetName(), future)
			}
			break
		}
	})
}

// TestSlowClient checks that the server ends the stream of a client that does not read, and that writers do not wait
// for it.
func TestSlowClient(t *testing.T) {
	f := newFixture(t, Options{InMemory: true, WatchBuffer: 8})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL()+"/api/v1/secrets?watch=true&resourceVersion="+f.ResourceVersion(), nil)
	check(t, err)
	res, err := f.http.Do(req)
	check(t, err)
	defer func() { _ = res.Body.Close() }()
	secret := f.createSecret(newSecret("a"))
	big := strings.Repeat("x", 100_000)
	for i := range 20 {
		secret = f.updateSecret(secret, big+string(rune('a'+i)))
	}
	lines := 0
	reader := bufio.NewReader(res.Body)
	for {
		if _, err := reader.ReadString('\n'); err != nil {
			break
		}
		lines++
	}
	if lines >= 21 {
		t.Errorf("got all %d events, want the end of the stream before the last", lines)
	}
}

func TestWatchMediaTypes(t *testing.T) {
	for name, test := range map[string]struct {
		accept      string
		code        int
		contentType string
		contains    string
	}{
		"json":     {"application/json", 200, "application/json", `{"type":"ADDED","object":{"kind":"Secret","apiVersion":"v1"`},
		"default":  {"", 200, "application/json", `"kind":"Secret"`},
		"protobuf": {"application/vnd.kubernetes.protobuf", 200, "application/vnd.kubernetes.protobuf;stream=watch", "k8s\x00"},
		"stream":   {"application/vnd.kubernetes.protobuf;stream=watch", 200, "application/vnd.kubernetes.protobuf;stream=watch", "ADDED"},
		"table":    {"application/json;as=Table;v=v1;g=meta.k8s.io", 200, "application/json", `"kind":"Table"`},
		"yaml":     {"application/yaml", 406, "application/yaml", "only the following media types are accepted"},
	} {
		t.Run(name, inBubble(func(t *testing.T) {
			f := newFixture(t, Options{InMemory: true})
			f.createSecret(newSecret("a"))
			got := f.do(http.MethodGet, "/api/v1/secrets?watch=true&timeoutSeconds=1", "", "Accept", test.accept)
			if got.code != test.code || got.header.Get("Content-Type") != test.contentType {
				t.Errorf("got %d %s, want %d %s", got.code, got.header.Get("Content-Type"), test.code, test.contentType)
			}
			if !strings.Contains(string(got.body), test.contains) {
				t.Errorf("got body %q, want %q in it", got.body, test.contains)
			}
		}))
	}
}

func TestWatchRefusesBadOptions(t *testing.T) {
	f := newFixture(t, Options{})
	for name, test := range map[string]struct {
		query string
		code  int
		cause string
	}{
		"version not a number":  {"resourceVersion=x", 422, "resourceVersion"},
		"match without initial": {"resourceVersion=1&resourceVersionMatch=NotOlderThan", 422, "resourceVersionMatch"},
		"initial without match": {"sendInitialEvents=true", 422, "resourceVersionMatch"},
		"exact":                 {"resourceVersion=1&resourceVersionMatch=Exact&sendInitialEvents=true", 422, "resourceVersionMatch"},
		"unknown field":         {"fieldSelector=spec.colour%3Dblue", 400, ""},
		"malformed selector":    {"labelSelector=%21%21", 400, ""},
		"malformed number":      {"timeoutSeconds=soon", 400, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.do(http.MethodGet, "/api/v1/secrets?watch=true&"+test.query, "")
			status := got.status(t)
			if got.code != test.code || int(status.Code) != test.code {
				t.Fatalf("got %d %s, want %d", got.code, got.body, test.code)
			}
			if test.cause != "" && (status.Details == nil || len(status.Details.Causes) == 0 || status.Details.Causes[0].Field != test.cause) {
				t.Errorf("got details %+v, want a cause for %s", status.Details, test.cause)
			}
		})
	}
}
