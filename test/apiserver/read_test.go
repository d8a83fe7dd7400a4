// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
)

// TestReadVersions lists and gets at every kind of version, after two writes to secret a and one to secret b.
func TestReadVersions(t *testing.T) {
	f := newFixture(t, Options{})
	before := f.ResourceVersion()
	first := f.createSecret(newSecret("a"))
	second := f.updateSecret(first, "new")
	f.createSecret(newSecret("b"))
	const listPath, exact, notOlder = "/api/v1/namespaces/default/secrets?", "resourceVersionMatch=Exact&", "resourceVersionMatch=NotOlderThan&"
	for name, test := range map[string]struct {
		path string
		code int
		want string // "name@version" of the items, or the reason
	}{
		"newest":              {listPath, 200, "a@" + second.ResourceVersion + " b"},
		"any":                 {listPath + "resourceVersion=0", 200, "a b"},
		"any, not older":      {listPath + notOlder + "resourceVersion=0", 200, "a b"},
		"not older, implicit": {listPath + "resourceVersion=" + first.ResourceVersion, 200, "a b"},
		"not older":           {listPath + notOlder + "resourceVersion=" + first.ResourceVersion, 200, "a b"},
		"exact, first":        {listPath + exact + "resourceVersion=" + first.ResourceVersion, 200, "a@" + first.ResourceVersion},
		"exact, second":       {listPath + exact + "resourceVersion=" + second.ResourceVersion, 200, "a@" + second.ResourceVersion},
		"exact, before":       {listPath + exact + "resourceVersion=" + before, 200, ""},
		// As in kube-apiserver, a limit without resourceVersionMatch makes the version exact.
		"exact by limit":     {listPath + "limit=10&resourceVersion=" + first.ResourceVersion, 200, "a@" + first.ResourceVersion},
		"exact, dropped":     {listPath + exact + "resourceVersion=5", 410, "Expired"},
		"exact, future":      {listPath + exact + "resourceVersion=99999999", 504, "Timeout"},
		"not older, future":  {listPath + notOlder + "resourceVersion=99999999", 504, "Timeout"},
		"implicit, future":   {listPath + "resourceVersion=99999999", 504, "Timeout"},
		"not a number":       {listPath + "resourceVersion=x", 400, "BadRequest"},
		"exact zero":         {listPath + exact + "resourceVersion=0", 422, "Invalid"},
		"match alone":        {listPath + notOlder, 422, "Invalid"},
		"unknown match":      {listPath + "resourceVersionMatch=Best&resourceVersion=1", 422, "Invalid"},
		"initial events":     {listPath + "sendInitialEvents=true", 422, "Invalid"},
		"named":              {listPath + "fieldSelector=metadata.name%3Da", 200, "a@" + second.ResourceVersion},
		"named, exact":       {listPath + exact + "fieldSelector=metadata.name%3Da&resourceVersion=" + first.ResourceVersion, 200, "a@" + first.ResourceVersion},
		"named, future":      {listPath + "fieldSelector=metadata.name%3Da&resourceVersion=99999999", 504, "Timeout"},
		"named, absent":      {listPath + "fieldSelector=metadata.name%3Dc", 200, ""},
		"by type":            {listPath + "fieldSelector=type%3DOpaque", 200, "a b"},
		"unknown field":      {listPath + "fieldSelector=spec.nodeName%3Dx", 400, "BadRequest"},
		"malformed selector": {listPath + "labelSelector=%21%21", 400, "BadRequest"},
		"another namespace":  {"/api/v1/namespaces/kube-system/secrets?", 200, ""},
		"missing namespace":  {"/api/v1/namespaces/x/secrets?", 200, ""},
		"get":                {"/api/v1/namespaces/default/secrets/a?", 200, "a@" + second.ResourceVersion},
		"get, any":           {"/api/v1/namespaces/default/secrets/a?resourceVersion=0", 200, "a"},
		"get, future":        {"/api/v1/namespaces/default/secrets/a?resourceVersion=99999999", 504, "Timeout"},
		"get, not a number":  {"/api/v1/namespaces/default/secrets/a?resourceVersion=x", 400, "BadRequest"},
		"get, absent":        {"/api/v1/namespaces/default/secrets/c?", 404, "NotFound"},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.do(http.MethodGet, test.path, "")
			if got.code != test.code {
				t.Fatalf("got %d %s, want %d", got.code, got.body, test.code)
			}
			if test.code != 200 {
				if status := got.status(t); string(status.Reason) != test.want || int(status.Code) != test.code {
					t.Errorf("got %+v, want reason %s", status, test.want)
				}
				return
			}
			checkItems(t, got.body, strings.Fields(test.want))
		})
	}
}

// checkItems compares a list or a single object with want: "name" or "name@version" for each.
func checkItems(t *testing.T, body []byte, want []string) {
	t.Helper()
	var list corev1.SecretList
	check(t, json.Unmarshal(body, &list))
	if list.Kind == "Secret" {
		var single corev1.Secret
		check(t, json.Unmarshal(body, &single))
		list.Items = []corev1.Secret{single}
	} else if list.Kind != "SecretList" || list.APIVersion != "v1" || list.ResourceVersion == "" || list.Items == nil {
		t.Errorf("got %s %s at version %q, want a SecretList with a version and items", list.APIVersion, list.Kind, list.ResourceVersion)
	}
	var got []string
	for i, item := range list.Items {
		text := item.Name
		if i < len(want) && strings.Contains(want[i], "@") {
			text += "@" + item.ResourceVersion
		}
		got = append(got, text)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestListItemsHaveNoTypeMeta checks that items of a list have no kind, as in kube-apiserver, and single objects have
// one.
func TestListItemsHaveNoTypeMeta(t *testing.T) {
	f := newFixture(t, Options{})
	f.createSecret(newSecret("a"))
	for range 2 { // the second time checks that the first did not change the stored object
		if body := string(f.do(http.MethodGet, "/api/v1/secrets", "").body); strings.Contains(body, `"kind":"Secret"`) {
			t.Errorf("got %s, want items without kind", body)
		}
		if body := string(f.do(http.MethodGet, "/api/v1/namespaces/default/secrets/a", "").body); !strings.Contains(body, `"kind":"Secret","apiVersion":"v1"`) {
			t.Errorf("got %s, want kind and apiVersion", body)
		}
	}
	if body := string(f.do(http.MethodGet, "/api/v1/pods", "").body); !strings.Contains(body, `"items":[]`) {
		t.Errorf("got %s, want an empty array of items", body)
	}
}

func TestFieldLabels(t *testing.T) {
	for name, test := range map[string]struct {
		resource *resource
		label    string
		ok       bool
	}{
		"name of a secret":             {secrets, "metadata.name", true},
		"type of a secret":             {secrets, "type", true},
		"node of a secret":             {secrets, "spec.nodeName", false},
		"namespace of a config map":    {configMaps, "metadata.namespace", true},
		"type of a config map":         {configMaps, "type", false},
		"node of a pod":                {pods, "spec.nodeName", true},
		"phase of a pod":               {pods, "status.phase", true},
		"image of a pod":               {pods, "spec.image", false},
		"name of a node":               {nodes, "metadata.name", true},
		"namespace of a node":          {nodes, "metadata.namespace", false},
		"unschedulable of a node":      {nodes, "spec.unschedulable", true},
		"phase of a namespace":         {namespaces, "status.phase", true},
		"name of a service account":    {serviceAccounts, "metadata.name", true},
		"secrets of a service account": {serviceAccounts, "secrets", false},
	} {
		t.Run(name, func(t *testing.T) {
			label, value, err := test.resource.checkFieldLabel(test.label, "v")
			if (err == nil) != test.ok {
				t.Errorf("got error %v, want ok %t", err, test.ok)
			}
			if test.ok && (label != test.label || value != "v") {
				t.Errorf("got %s=%s, want it unchanged", label, value)
			}
		})
	}
}
