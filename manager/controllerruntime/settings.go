// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// defaultSyncPeriod is that of controller-runtime.
const defaultSyncPeriod = 10 * time.Hour

// settings are what cache.Options say of one kind, in each namespace.
type settings struct {
	all cache.Config // of namespaces that are not in namespaces
	// namespaces are those that the cache is restricted to; empty if it is not. The key
	// cache.AllNamespaces stands for all others.
	namespaces map[string]cache.Config
	selected   bool // the stock cache holds what they select: CacheOptions.Selected
}

// settingsOfKinds returns the settings of each kind of CacheOptions.For.
func settingsOfKinds(options *CacheOptions, stock *cache.Options) (map[schema.GroupVersionKind]settings, error) {
	kinds := map[schema.GroupVersionKind]settings{}
	for _, object := range options.For {
		gvk, err := apiutil.GVKForObject(object, stock.Scheme)
		if err != nil {
			return nil, unknownKind("For", err)
		}
		if kinds[gvk], err = settingsFor(stock, gvk); err != nil {
			return nil, err
		}
	}
	for _, object := range options.Selected {
		gvk, err := apiutil.GVKForObject(object, stock.Scheme)
		if err != nil {
			return nil, unknownKind("Selected", err)
		}
		settings, ok := kinds[gvk]
		switch {
		case !ok:
			return nil, fmt.Errorf("CacheOptions.Selected: %s is not among the kinds of CacheOptions.For: add it there, too", gvk.Kind)
		case !settings.isRestricted():
			return nil, fmt.Errorf("CacheOptions.Selected: cache.Options select no objects of the kind %s, so all would be held: "+
				"set a label selector, a field selector or namespaces in cache.Options.ByObject", gvk.Kind)
		}
		settings.selected = true
		kinds[gvk] = settings
	}
	return kinds, nil
}

// unknownKind returns the error for an object of an option, whose kind is not known.
func unknownKind(option string, err error) error {
	return fmt.Errorf("CacheOptions.%s: the kind of an object is not known: add its type to ctrl.Options.Scheme, "+
		"or set the kind of an unstructured or metadata object: %w", option, err)
}

// settingsFor returns the settings of a kind. Their order is that of cache.ByObject:
// ByObject, DefaultNamespaces, Default*.
func settingsFor(options *cache.Options, gvk schema.GroupVersionKind) (settings, error) {
	byObject, err := byObjectOf(options, gvk)
	if err != nil {
		return settings{}, err
	}
	ofObject := cache.Config{
		LabelSelector: byObject.Label, FieldSelector: byObject.Field, Transform: byObject.Transform,
		UnsafeDisableDeepCopy: byObject.UnsafeDisableDeepCopy, SyncPeriod: byObject.SyncPeriod,
	}
	defaults := cache.Config{
		LabelSelector: options.DefaultLabelSelector, FieldSelector: options.DefaultFieldSelector, Transform: options.DefaultTransform,
		UnsafeDisableDeepCopy: options.DefaultUnsafeDisableDeepCopy, SyncPeriod: options.SyncPeriod,
	}
	s := settings{all: withDefaults(ofObject, defaults), namespaces: map[string]cache.Config{}}
	namespaces := byObject.Namespaces
	if namespaces == nil {
		namespaces = options.DefaultNamespaces
	}
	for namespace, config := range namespaces {
		s.namespaces[namespace] = withDefaults(withDefaults(withDefaults(config, ofObject), options.DefaultNamespaces[namespace]), defaults)
	}
	return s, nil
}

func byObjectOf(options *cache.Options, gvk schema.GroupVersionKind) (cache.ByObject, error) {
	for object, byObject := range options.ByObject {
		kind, err := apiutil.GVKForObject(object, options.Scheme)
		if err != nil {
			return byObject, fmt.Errorf("cache.Options.ByObject: %w", err)
		}
		if kind == gvk {
			return byObject, nil
		}
	}
	return cache.ByObject{}, nil
}

// withDefaults sets empty fields to those of defaults.
func withDefaults(config, defaults cache.Config) cache.Config {
	if config.LabelSelector == nil {
		config.LabelSelector = defaults.LabelSelector
	}
	if config.FieldSelector == nil {
		config.FieldSelector = defaults.FieldSelector
	}
	if config.Transform == nil {
		config.Transform = defaults.Transform
	}
	config.UnsafeDisableDeepCopy = cmp.Or(config.UnsafeDisableDeepCopy, defaults.UnsafeDisableDeepCopy)
	config.SyncPeriod = cmp.Or(config.SyncPeriod, defaults.SyncPeriod)
	return config
}

// hasSelector reports whether objects of any namespace are selected by more than their names.
func (s *settings) hasSelector() bool {
	return slices.ContainsFunc(append(slices.Collect(maps.Values(s.namespaces)), s.all), isSelective)
}

// isRestricted reports whether the settings select some of the objects only.
func (s *settings) isRestricted() bool {
	if len(s.namespaces) == 0 {
		return isSelective(s.all)
	}
	all, ok := s.namespaces[cache.AllNamespaces]
	return !ok || isSelective(all)
}

func isSelective(config cache.Config) bool {
	return config.LabelSelector != nil && !config.LabelSelector.Empty() || config.FieldSelector != nil && !config.FieldSelector.Empty()
}

// in returns the settings of a namespace, and an error if the cache is restricted to
// others.
func (s *settings) in(key client.ObjectKey) (cache.Config, error) {
	if len(s.namespaces) == 0 {
		return s.all, nil
	}
	config, ok := s.namespaces[key.Namespace]
	if !ok {
		config, ok = s.namespaces[cache.AllNamespaces]
	}
	if !ok {
		return config, fmt.Errorf("unable to get: %v because of unknown namespace for the cache: add it to cache.Options.DefaultNamespaces or ByObject", key)
	}
	return config, nil
}

// hasTransform reports whether objects of any namespace are transformed.
func (s *settings) hasTransform() bool {
	for _, config := range s.namespaces {
		if config.Transform != nil {
			return true
		}
	}
	return s.all.Transform != nil
}

// resyncPeriod returns how often an informer of the kind repeats what it holds. An
// informer has one period for all namespaces: the shortest.
func (s *settings) resyncPeriod() time.Duration {
	period := time.Duration(0)
	consider := func(config cache.Config) {
		own := defaultSyncPeriod
		if config.SyncPeriod != nil {
			own = *config.SyncPeriod
		}
		if period == 0 || own > 0 && own < period {
			period = own
		}
	}
	for _, config := range s.namespaces {
		consider(config)
	}
	if len(s.namespaces) == 0 {
		consider(s.all)
	}
	return period
}
