// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
)

// The field selector of a request. kube-apiserver sorts its terms and authorizes the first term metadata.name=NAME. So
// a request for one object has no other term of that form.

const namespaceField = "metadata.namespace"

// Selects reports whether an object can be selected: whether its namespace and its name satisfy the terms that
// Selector has on metadata.namespace and metadata.name. It sends no request. The server decides the other terms.
func (r *RESTResource) Selects(namespace, name string) bool {
	if r.Selector == nil {
		return true
	}
	_, text := r.Selector(namespace)
	_, selects, err := splitTerms(text, namespace, name)
	return err != nil || selects // the server refuses a selector without a meaning
}

// selectIn sets the selectors of a request.
func (r *RESTResource) selectIn(namespace, name string, options *metav1.ListOptions) {
	text := ""
	if r.Selector != nil {
		options.LabelSelector, text = r.Selector(namespace)
	}
	terms := []string{fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
	switch rest, selects, err := splitTerms(text, namespace, name); {
	case err != nil:
		terms = append(terms, text)
	case !selects: // nothing satisfies both terms
		terms = append(terms, fields.OneTermNotEqualSelector(metav1.ObjectNameField, name).String())
	case rest != "":
		terms = append(terms, rest)
	}
	options.FieldSelector = strings.Join(terms, ",")
}

// splitTerms returns a field selector without its terms on the name and the namespace, and whether an object satisfies
// those.
func splitTerms(text, namespace, name string) (rest string, selects bool, err error) {
	if text == "" {
		return "", true, nil
	}
	selector, err := fields.ParseSelector(text)
	if err != nil {
		return "", false, err
	}
	own := fields.Set{metav1.ObjectNameField: name, namespaceField: namespace}
	selects = true
	for _, term := range selector.Requirements() {
		if own.Has(term.Field) && (own.Get(term.Field) == term.Value) != (term.Operator == selection.Equals) {
			selects = false
		}
	}
	others, err := selector.Transform(func(field, value string) (string, string, error) {
		if own.Has(field) {
			return "", "", nil // removes the term
		}
		return field, value, nil
	})
	if err != nil {
		return "", false, err
	}
	return others.String(), selects, nil
}
