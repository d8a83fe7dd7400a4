// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// noContinue is the token of the stock cache. Here it says that there may be more.
const noContinue = "continue-not-supported"

// listLive sets out to what the server has: of one namespace, or of all that the cache has, which are
// listed one after the other. Selectors, transforms and kinds of the items are those of the stock cache.
func (c *Cache) listLive(ctx context.Context, gvk schema.GroupVersionKind, out client.ObjectList, opts []client.ListOption) error {
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	mapping, err := c.restMapping(ctx, gvk)
	if err != nil {
		return fmt.Errorf("cache of referenced objects: %s: %w", gvk.Kind, err)
	}
	settings := c.kinds[gvk]
	if mapping.Scope.Name() == meta.RESTScopeNameRoot || len(settings.namespaces) == 0 {
		_, err := c.listPart(ctx, gvk, out, settings.all, options)
		return err
	}
	if options.Namespace != "" {
		config, err := settings.in(client.ObjectKey{Namespace: options.Namespace})
		if err == nil {
			_, err = c.listPart(ctx, gvk, out, config, options)
		}
		return err
	}
	if len(settings.namespaces) == 1 {
		for only, config := range settings.namespaces {
			options.Namespace = only
			_, err := c.listPart(ctx, gvk, out, config, options)
			return err
		}
	}
	if options.Continue != "" {
		return errors.New("a list of several namespaces cannot be continued: list one with client.InNamespace")
	}
	var items []runtime.Object
	more := ""
	for _, namespace := range slices.Sorted(maps.Keys(settings.namespaces)) {
		part := options
		part.Namespace = namespace
		if options.Limit > 0 {
			if part.Limit -= int64(len(items)); part.Limit == 0 {
				more = noContinue
				break
			}
		}
		config := settings.namespaces[namespace]
		if namespace == cache.AllNamespaces {
			config.FieldSelector = notIn(settings.namespaces, config.FieldSelector)
		}
		listed, err := c.listPart(ctx, gvk, out, config, part)
		if err != nil {
			return err
		}
		items = append(items, listed...)
		if out.GetContinue() != "" {
			more = noContinue
		}
	}
	out.SetContinue(more)
	return meta.SetList(out, items)
}

// listPart sets out to a list of the server, with the selectors of a config beside those of the caller,
// and returns its items. Its kind is that of the stock cache: each item has its own.
func (c *Cache) listPart(ctx context.Context, gvk schema.GroupVersionKind, out client.ObjectList, config cache.Config, options client.ListOptions) ([]runtime.Object, error) {
	if own := config.LabelSelector; own != nil {
		joined := own
		if options.LabelSelector != nil {
			requirements, _ := options.LabelSelector.Requirements()
			joined = own.DeepCopySelector().Add(requirements...)
		}
		options.LabelSelector = joined
	}
	options.FieldSelector = andSelectors(config.FieldSelector, options.FieldSelector)
	if !narrow(&options) {
		out.SetResourceVersion("")
		out.SetContinue("")
		return nil, meta.SetList(out, nil)
	}
	if err := c.live.List(ctx, out, &options); err != nil {
		return nil, timedOut(ctx, err)
	}
	items, err := meta.ExtractList(out)
	if err != nil {
		return nil, err
	}
	for i, item := range items {
		item.GetObjectKind().SetGroupVersionKind(gvk)
		if config.Transform == nil {
			continue
		}
		transformed, err := config.Transform(item)
		if err != nil {
			return nil, errors.New("the transform of cache.Options has failed") // its error may quote the object
		}
		if object, ok := transformed.(runtime.Object); ok {
			items[i] = object
		}
	}
	return items, meta.SetList(out, items)
}

// narrow sets the namespace to the one that the field selector requires. It returns false if no object satisfies its
// terms on metadata.name and metadata.namespace. Such a list is not sent: the server would authorize one of the names.
func narrow(options *client.ListOptions) (satisfiable bool) {
	if options.FieldSelector == nil {
		return true
	}
	required := map[string]string{}
	if options.Namespace != "" {
		required[namespaceField] = options.Namespace
	}
	terms := slices.DeleteFunc(options.FieldSelector.Requirements(), func(term fields.Requirement) bool {
		return term.Field != metav1.ObjectNameField && term.Field != namespaceField
	})
	for _, term := range terms {
		if term.Operator != selection.Equals {
			continue
		}
		before, ok := required[term.Field]
		if ok && before != term.Value || term.Value == "" || len(content.IsPathSegmentName(term.Value)) > 0 {
			return false
		}
		required[term.Field] = term.Value
	}
	options.Namespace = required[namespaceField]
	return !slices.ContainsFunc(terms, func(term fields.Requirement) bool {
		value, ok := required[term.Field]
		return ok && term.Operator == selection.NotEquals && term.Value == value
	})
}

// namespaceField is the field of a selector that has the namespace.
const namespaceField = "metadata.namespace"

// notIn returns a field selector that excludes the objects of named namespaces.
func notIn(namespaces map[string]cache.Config, selector fields.Selector) fields.Selector {
	for namespace := range namespaces {
		if namespace != cache.AllNamespaces {
			selector = andSelectors(selector, fields.OneTermNotEqualSelector(namespaceField, namespace))
		}
	}
	return selector
}

// andSelectors joins two field selectors, each of which may be nil.
func andSelectors(a, b fields.Selector) fields.Selector {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return fields.AndSelectors(a, b)
}
