// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

// The names and namespaces lie before, between and after those that selectors name.
var (
	namesAround      = []string{"another", "mine", "mine2", "other"}
	namespacesAround = []string{"default", "other"}
)

// allowNamed makes the server allow reads of Secrets only with a name of its resourceNames.
func (r *rig) allowNamed(names ...string) {
	r.server.Authorize(func(request apiserver.Request) bool {
		return request.Resource != "secrets" || request.Verb == "create" || slices.Contains(names, request.Name)
	})
}

// createAround creates a Secret of each name in each namespace.
func (r *rig) createAround() {
	r.t.Helper()
	for _, namespace := range namespacesAround {
		for _, name := range namesAround {
			secret := secretNamed(name, name)
			secret.Namespace = namespace
			if _, err := r.client.CoreV1().Secrets(namespace).Create(r.t.Context(), secret, metav1.CreateOptions{}); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	synctest.Wait()
}

// byField returns options with a field selector for all Secrets.
func byField(selector string) cache.Options {
	return cache.Options{ByObject: ofSecrets(cache.ByObject{Field: fields.ParseSelectorOrDie(selector)})}
}

// selectorsOfNames are options with terms on metadata.name and metadata.namespace, and the Secrets that they select of
// those of createAround.
var selectorsOfNames = map[string]struct {
	stock cache.Options
	want  []string
}{
	"a name":              {byField("metadata.name=mine"), []string{"default/mine", "other/mine"}},
	"the name twice":      {byField("metadata.name=mine,metadata.name==mine"), []string{"default/mine", "other/mine"}},
	"two names":           {byField("metadata.name=mine,metadata.name=other"), nil},
	"no such name":        {byField("metadata.name="), nil},
	"not a name":          {byField("metadata.name!=mine"), []string{"default/another", "default/mine2", "default/other", "other/another", "other/mine2", "other/other"}},
	"not two names":       {byField("metadata.name!=mine,metadata.name!=other"), []string{"default/another", "default/mine2", "other/another", "other/mine2"}},
	"a name and not it":   {byField("metadata.name=mine,metadata.name!=mine"), nil},
	"a name and another":  {byField("metadata.name=mine,type=Opaque"), []string{"default/mine", "other/mine"}},
	"a name, other type":  {byField("metadata.name=mine,type=kubernetes.io/tls"), nil},
	"a namespace":         {byField("metadata.namespace=other"), []string{"other/another", "other/mine", "other/mine2", "other/other"}},
	"not a namespace":     {byField("metadata.namespace!=other"), []string{"default/another", "default/mine", "default/mine2", "default/other"}},
	"a key":               {byField("metadata.namespace=other,metadata.name=mine"), []string{"other/mine"}},
	"of all kinds":        {cache.Options{DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", "mine")}, []string{"default/mine", "other/mine"}},
	"not that of Default": {cache.Options{DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", "other"), ByObject: byField("metadata.name=mine").ByObject}, []string{"default/mine", "other/mine"}},
	"of namespaces": {cache.Options{ByObject: ofSecrets(cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", "another"), Namespaces: map[string]cache.Config{
		"default": {FieldSelector: fields.OneTermEqualSelector("metadata.name", "mine")}, "other": {},
	}})}, []string{"default/mine", "other/another"}},
	"of default namespaces": {cache.Options{DefaultNamespaces: map[string]cache.Config{
		"default": {FieldSelector: fields.OneTermEqualSelector("metadata.name", "mine")}, "other": {FieldSelector: fields.OneTermNotEqualSelector("metadata.name", "mine")},
	}}, []string{"default/mine", "other/another", "other/mine2", "other/other"}},
	"of all other namespaces": {cache.Options{ByObject: ofSecrets(cache.ByObject{Namespaces: map[string]cache.Config{
		"default":           {FieldSelector: fields.OneTermEqualSelector("metadata.name", "mine")},
		cache.AllNamespaces: {FieldSelector: fields.OneTermEqualSelector("metadata.name", "other")},
	}})}, []string{"default/mine", "other/other"}},
	"a namespace that excludes itself": {cache.Options{ByObject: ofSecrets(cache.ByObject{Namespaces: map[string]cache.Config{
		"default": {FieldSelector: fields.OneTermEqualSelector("metadata.namespace", "other")}, "other": {},
	}})}, []string{"other/another", "other/mine", "other/mine2", "other/other"}},
}

// Of a selector's terms on the name and the namespace, each Get of an object that they exclude is NotFound without a
// request, and handlers get no event of it. Every other request is authorized as the name of its Get.
func TestSelectorsOfNames(t *testing.T) {
	for name, test := range selectorsOfNames {
		t.Run(name, func(t *testing.T) {
			inBubble(t, controllerruntime.CacheOptions{}, test.stock, func(t *testing.T, r *rig) {
				r.createAround()
				seen := r.record(&corev1.Secret{})
				var events, got []string
				for _, namespace := range namespacesAround {
					for _, name := range namesAround {
						r.allowNamed(name) // a request of another name is forbidden
						err := r.cache.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, &corev1.Secret{})
						if err == nil {
							got = append(got, namespace+"/"+name)
							events = append(events, "add "+name+"="+name)
						} else if !apierrors.IsNotFound(err) {
							t.Errorf("Get %s/%s: got %v, want the object or NotFound", namespace, name, err)
						}
					}
				}
				if !slices.Equal(got, test.want) {
					t.Errorf("Get: got %q, want %q", got, test.want)
				}
				seen.want(t, "handlers", events...)
				if len(test.want) > 0 || name == "a name, other type" {
					return
				}
				if requests := secretRequests(r.server); len(requests) > 0 {
					t.Errorf("got the requests %q, want none", requests)
				}
			})
		})
	}
}

// A live List yields what the selectors of the cache and of the caller select, and is authorized as the name that they
// require. It is not sent if they exclude each other.
func TestLiveListSelectsNames(t *testing.T) {
	tests := map[string]struct {
		stock   cache.Options
		options []client.ListOption
		allowed string // the name of resourceNames; empty: all lists are allowed
		want    []string
	}{
		"a name":                      {byField("metadata.name=mine"), nil, "mine", []string{"default/mine", "other/mine"}},
		"the same name":               {byField("metadata.name=mine"), []client.ListOption{client.MatchingFields{"metadata.name": "mine"}}, "mine", []string{"default/mine", "other/mine"}},
		"an earlier name":             {byField("metadata.name=mine"), []client.ListOption{client.MatchingFields{"metadata.name": "another"}}, "none", nil},
		"a later name":                {byField("metadata.name=mine"), []client.ListOption{client.MatchingFields{"metadata.name": "other"}}, "none", nil},
		"an excluded name":            {byField("metadata.name!=mine"), []client.ListOption{client.MatchingFields{"metadata.name": "mine"}}, "none", nil},
		"a name of others":            {byField("metadata.name!=mine"), []client.ListOption{client.MatchingFields{"metadata.name": "other"}}, "other", []string{"default/other", "other/other"}},
		"a namespace":                 {byField("metadata.namespace=other,metadata.name=mine"), nil, "mine", []string{"other/mine"}},
		"another namespace":           {byField("metadata.namespace=other"), []client.ListOption{client.InNamespace("default")}, "none", nil},
		"not the namespace":           {byField("metadata.namespace!=other"), []client.ListOption{client.InNamespace("other")}, "none", nil},
		"an impossible name":          {byField("metadata.name=a/b"), nil, "none", nil},
		"labels":                      {byField("metadata.name=mine"), []client.ListOption{client.MatchingLabels{"app": "web"}}, "mine", []string{"default/mine", "other/mine"}},
		"other labels":                {byField("metadata.name=mine"), []client.ListOption{client.MatchingLabels{"app": "db"}}, "mine", nil},
		"other labels than the cache": {cache.Options{DefaultLabelSelector: web}, []client.ListOption{client.MatchingLabels{"app": "db"}}, "", nil},
		"labels and another field": {cache.Options{ByObject: ofSecrets(cache.ByObject{Label: web, Field: fields.OneTermEqualSelector("type", "Opaque")})},
			[]client.ListOption{client.InNamespace("default"), client.MatchingFields{"metadata.name": "mine"}}, "mine", []string{"default/mine"}},
		"one of namespaces": {cache.Options{ByObject: ofSecrets(cache.ByObject{Namespaces: map[string]cache.Config{
			"default": {FieldSelector: fields.OneTermEqualSelector("metadata.namespace", "other")}, "other": {FieldSelector: fields.OneTermEqualSelector("metadata.name", "mine")},
		}})}, nil, "mine", []string{"other/mine"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, controllerruntime.CacheOptions{LiveList: true}, test.stock, func(t *testing.T, r *rig) {
				r.createAround()
				if test.allowed != "" {
					r.allowNamed(test.allowed)
				}
				list := &corev1.SecretList{Items: []corev1.Secret{{}}}
				err := r.cache.List(t.Context(), list, test.options...)
				var got []string
				for _, secret := range list.Items {
					got = append(got, secret.Namespace+"/"+secret.Name)
				}
				if err != nil || !slices.Equal(got, test.want) {
					t.Errorf("got %q and %v, want %q", got, err, test.want)
				}
				for _, request := range r.server.Requests() {
					if name == "a namespace" && request.Verb == "list" && !strings.Contains(request.Path, "/namespaces/other/") {
						t.Errorf("got a list of %s, want one of the namespace", request.Path)
					}
				}
			})
		})
	}
}
