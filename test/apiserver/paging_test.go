// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/base64"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

// TestPagesAreConsistent checks that all pages have the version of the first, despite writes between them.
func TestPagesAreConsistent(t *testing.T) {
	f := newFixture(t, Options{})
	f.createNumbered(10)
	version := f.ResourceVersion()
	var names []string
	options := metav1.ListOptions{Limit: 3}
	for pages := 1; ; pages++ {
		list := f.listSecrets(options)
		if list.ResourceVersion != version {
			t.Errorf("got page %d at version %s, want %s", pages, list.ResourceVersion, version)
		}
		for _, item := range list.Items {
			names = append(names, item.Name)
		}
		if list.Continue == "" {
			if list.RemainingItemCount != nil || pages != 4 {
				t.Errorf("got page %d as the last, with %v remaining, want page 4 with none", pages, list.RemainingItemCount)
			}
			break
		}
		if want := int64(10 - len(names)); list.RemainingItemCount == nil || *list.RemainingItemCount != want {
			t.Errorf("got %v remaining, want %d", list.RemainingItemCount, want)
		}
		options.Continue = list.Continue
		f.deleteSecret(fmt.Sprintf("s%02d", 9-pages)) // of a later page
		f.createSecret(newSecret(fmt.Sprintf("t%02d", pages)))
	}
	if len(names) != 10 || names[0] != "s00" || names[9] != "s09" {
		t.Errorf("got %v, want s00 to s09", names)
	}
}

// TestExpiredPage checks that the error for a page at a compacted version has a token for the remainder of the newest
// state.
func TestExpiredPage(t *testing.T) {
	f := newFixture(t, Options{})
	f.createNumbered(6)
	first := f.listSecrets(metav1.ListOptions{Limit: 2})
	f.deleteSecret("s03")
	f.Compact()
	_, err := f.client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{Limit: 2, Continue: first.Continue})
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) || status.Status().Continue == "" {
		t.Fatalf("got %v, want Expired with a continue token", err)
	}
	remainder := f.listSecrets(metav1.ListOptions{Continue: status.Status().Continue})
	if len(remainder.Items) != 3 || remainder.Items[0].Name != "s02" || remainder.Items[1].Name != "s04" || remainder.ResourceVersion != f.ResourceVersion() {
		t.Errorf("got %v, want s02, s04, s05 at the current version", remainder.Items)
	}
}

func TestPagingDetails(t *testing.T) {
	f := newFixture(t, Options{})
	f.createNumbered(4)
	if list := f.listSecrets(metav1.ListOptions{Limit: 4}); list.Continue != "" {
		t.Errorf("limit 4: got token %q, want none", list.Continue)
	}
	if list := f.listSecrets(metav1.ListOptions{Limit: 2, ResourceVersion: "0"}); len(list.Items) != 4 || list.Continue != "" {
		t.Errorf("limit 2 at version 0: got %d items, want all 4", len(list.Items))
	}
	list := f.listSecrets(metav1.ListOptions{Limit: 2, FieldSelector: "type=Opaque"})
	if list.Continue == "" || list.RemainingItemCount != nil {
		t.Errorf("selector: got token %q and %v remaining, want a token and no count", list.Continue, list.RemainingItemCount)
	}
	found := 0
	p := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
		return f.client.CoreV1().Secrets("default").List(t.Context(), options)
	}))
	p.PageSize = 1
	err := p.EachListItem(t.Context(), metav1.ListOptions{}, func(runtime.Object) error { found++; return nil })
	if err != nil || found != 4 {
		t.Errorf("client-go's pager: got %d items, %v, want 4", found, err)
	}
}

func TestInvalidContinueTokens(t *testing.T) {
	f := newFixture(t, Options{})
	encode := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for name, options := range map[string]metav1.ListOptions{
		"not base64":     {Continue: "!"},
		"not JSON":       {Continue: encode("x")},
		"other version":  {Continue: encode(`{"v":"v2","rv":1,"start":"a"}`)},
		"no version":     {Continue: encode(`{"v":"meta.k8s.io/v1","start":"a"}`)},
		"no start":       {Continue: encode(`{"v":"meta.k8s.io/v1","rv":1}`)},
		"with a version": {Continue: encode(`{"v":"meta.k8s.io/v1","rv":1,"start":"a"}`), ResourceVersion: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := f.client.CoreV1().Secrets("").List(t.Context(), options); !apierrors.IsBadRequest(err) {
				t.Errorf("got %v, want BadRequest", err)
			}
		})
	}
}
