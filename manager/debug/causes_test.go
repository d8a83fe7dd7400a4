// SPDX-License-Identifier: Apache-2.0

package debug_test

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/manager/debug"
	"github.com/refwatch/refwatch/objectcache"
)

// forbidden returns the status of an object that the server refuses.
func forbidden(name string) objectcache.Status {
	status := object(name, objectcache.PhaseFailing)
	status.Synced, status.Exists = false, false
	status.LastError = apierrors.NewForbidden(corev1.Resource("secrets"), name, errors.New(`User "agent" cannot watch resource "secrets"`))
	return status
}

// 200 forbidden Secrets are one cause. Its link selects them, and so does that of their Role.
func TestCauses(t *testing.T) {
	var all source
	for i := range 200 {
		all = append(all, forbidden(fmt.Sprintf("vault-%03d", i)))
	}
	for i := range 12 {
		stuck := object(fmt.Sprint("stuck-", i), objectcache.PhaseNotUpdated)
		stuck.NotUpdatedSince, stuck.Failures = time.Now(), 1
		stuck.LastError = errors.New("read tcp 10.0.0.2:443: connection reset")
		all = append(all, stuck)
	}
	absent := object("absent", objectcache.PhaseAbsent)
	absent.Exists = false
	all = append(all, absent, object("well", objectcache.PhaseServing))
	secrets := objectcache.Permissions{Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Verbs: []string{"list", "watch"}}
	handler := newHandler(t, debug.Options{Sources: map[string]debug.Source{"secrets": permitted{all, secrets}}})

	want := []debug.Cause{
		{Objects: 200, Problem: debug.Failing, Reason: metav1.StatusReasonForbidden, Text: `secrets "…" is forbidden: User "agent" cannot watch resource "secrets"`},
		{Objects: 12, Problem: debug.NotUpdated, Text: "read tcp 10.0.0.2:443: connection reset"},
		{Objects: 1, Problem: debug.Absent, Text: "not on the server"},
	}
	causes := report(t, handler, "?filter=nothing").Causes
	if len(causes) != len(want) {
		t.Fatalf("got %d causes, want %d: %+v", len(causes), len(want), causes)
	}
	for i, got := range causes {
		want[i].Key = got.Key
		if got != want[i] {
			t.Errorf("cause %d: got %+v, want %+v", i, got, want[i])
		}
		objects := report(t, handler, "?cause="+got.Key).Objects
		if len(objects) != got.Objects || slices.ContainsFunc(objects, func(o debug.Object) bool { return o.Cause != got.Key || o.Problem != got.Problem }) {
			t.Errorf("the query of cause %d selects %d objects, want its %d", i, len(objects), got.Objects)
		}
	}
	page := get(handler, "?sort=name").Body.String()
	forbiddenKey := causes[0].Key
	for _, want := range []string{
		fmt.Sprintf(`<a data-live="" href="?cause=%s&amp;sort=name" class="bad"><b>200</b> × forbidden:</a> User &#34;agent&#34; cannot watch`, forbiddenKey),
		fmt.Sprintf(`<a href="?cause=%s&amp;format=roles&amp;sort=name">the Role</a>`, forbiddenKey),
		`class="warn"><b>12</b> × changes do not arrive:</a> read tcp`,
		"of 213 of 214 objects",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Index(page, `id="causes"`) > strings.Index(page, `id="summary"`) {
		t.Error("the causes stand below the cards, want them above")
	}
	if got := strings.Count(get(handler, "?format=roles&cause="+forbiddenKey).Body.String(), "  - vault-"); got != 200 {
		t.Errorf("the Role names %d objects, want 200", got)
	}
}

// The page shows eight causes, and how many more there are.
func TestManyCauses(t *testing.T) {
	var all []objectcache.Status
	for i := range 20 {
		for j := range i + 1 {
			status := object(fmt.Sprintf("o-%d-%d", i, j), objectcache.PhaseFailing)
			status.LastError = fmt.Errorf("cause %c", 'a'+i)
			all = append(all, status)
		}
	}
	handler := secrets(t, all...)
	page := get(handler, "").Body.String()
	if got := len(regexp.MustCompile(`</b> × failing`).FindAllString(page, -1)); got != 8 {
		t.Errorf("causes on the page: got %d, want 8", got)
	}
	if want := "and 12 more</a> of 78 objects"; !strings.Contains(page, want) {
		t.Errorf("the page lacks %q", want)
	}
	if got := report(t, handler, "").Causes; len(got) != 20 || got[0].Objects != 20 {
		t.Errorf("JSON: got %d causes, the first of %d objects; want 20, and 20", len(got), got[0].Objects)
	}
}

// A cause has "…" in place of the object's own name, and only of that.
func TestNameInACause(t *testing.T) {
	tests := map[string]struct{ name, text, want string }{
		"quoted":           {"tls", `secrets "tls" is forbidden`, `secrets "…" is forbidden`},
		"in a path":        {"tls", `Get "https://a/api/v1/namespaces/shop/secrets/tls": EOF`, `Get "https://a/api/v1/namespaces/shop/secrets/…": EOF`},
		"in a selector":    {"tls", `Get "https://a/x?fieldSelector=metadata.name%3Dtls&watch=1"`, `Get "https://a/x?fieldSelector=metadata.name%3D…&watch=1"`},
		"twice":            {"tls", `"tls" and "tls"`, `"…" and "…"`},
		"part of a word":   {"tls", "remote error: tls: tlsv1 a-tls-b", "remote error: …: tlsv1 a-tls-b"},
		"in a user":        {"agent", `User "system:serviceaccount:shop:agent"`, `User "system:serviceaccount:shop:agent"`},
		"adjacent":         {"a", `"aa"`, `"aa"`},
		"the whole":        {"tls", "tls", "…"},
		"no name":          {"", "EOF", "EOF"},
		"the name is long": {"tls.example.com", `secrets "tls.example.com" not served`, `secrets "…" not served`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := object(test.name, objectcache.PhaseFailing)
			status.LastError = errors.New(test.text)
			if got := report(t, secrets(t, status), "").Causes; len(got) != 1 || got[0].Text != test.want {
				t.Errorf("got %+v, want %q", got, test.want)
			}
		})
	}
}

// An object that has a cause without a server's answer: what it waits for, or why it is absent.
func TestCausesWithoutAnAnswer(t *testing.T) {
	absent := func(reason objectcache.Reason) objectcache.Status {
		status := object("x", objectcache.PhaseAbsent)
		status.Exists, status.Reason = false, reason
		return status
	}
	syncing := func(waiting error) objectcache.Status {
		status := object("x", objectcache.PhaseSyncing)
		status.Synced, status.Exists, status.Waiting = false, false, waiting
		return status
	}
	for name, test := range map[string]struct {
		status objectcache.Status
		want   string
	}{
		"absent":       {absent(""), "not on the server"},
		"invalid":      {absent(objectcache.ReasonInvalidName), "no object can have the name"},
		"not selected": {absent(objectcache.ReasonNotSelected), "the field selector of the resource excludes it"},
		"waiting":      {syncing(reflector.ErrWaiting), "waiting"},
		"no answer":    {syncing(nil), "no answer from the server"},
	} {
		t.Run(name, func(t *testing.T) {
			handler := secrets(t, test.status)
			got := report(t, handler, "").Causes
			if len(got) != 1 || got[0].Text != test.want || got[0].Reason != "" {
				t.Errorf("got %+v, want %q", got, test.want)
			}
			if page := get(handler, "").Body.String(); !strings.Contains(page, test.want) {
				t.Errorf("the page lacks %q", test.want)
			}
			if test.status.Phase == objectcache.PhaseAbsent && strings.Count(get(handler, "").Body.String(), test.want) != 2 {
				t.Errorf("want %q at the cause and at the object", test.want)
			}
		})
	}
}

// A cause that has gone selects no objects, and the page says so.
func TestCauseHasGone(t *testing.T) {
	response := get(secrets(t, object("tls", objectcache.PhaseServing)), "?cause=0123456789abcdef")
	for _, want := range []string{"No object that matches has this cause any more.", `<a data-live="" href="?">Show all</a>`} {
		if page := response.Body.String(); response.Code != http.StatusOK || !strings.Contains(page, want) {
			t.Errorf("got status %d and a page without %q", response.Code, want)
		}
	}
}
