// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	internalvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

func (c *call) get() error {
	var options metav1.GetOptions
	if err := c.decodeQuery(&options); err != nil {
		return err
	}
	version, invalid := parseVersion(options.ResourceVersion)
	if invalid != nil {
		return apierrors.NewBadRequest("invalid resource version: " + invalid.Error())
	}
	key := c.key()
	read := c.store.get
	if options.ResourceVersion != "" {
		read = c.cache.getCached
		c.cache.awaitCache(c.r.Context(), version)
	}
	obj, current := read(c.table, key)
	if version > current {
		return tooLarge(version, current)
	}
	if obj == nil {
		return apierrors.NewNotFound(c.groupResource(), key.Name)
	}
	return c.respond(http.StatusOK, obj)
}

// list responds with the newest state or with that of an exact version, in one list or in pages.
func (c *call) list() error {
	options, err := c.listOptions()
	if err != nil {
		return err
	}
	plan, err := planList(options)
	if err != nil {
		return err
	}
	sel := c.selection(options)
	if plan.cached {
		c.cache.awaitCache(c.r.Context(), plan.notOlderThan)
	}
	objects, version, err := c.cache.list(c.table, sel, plan)
	if err != nil {
		return plan.expired(err)
	}
	objects, list := plan.page(objects, version, sel)
	obj, err := c.listOf(objects, list)
	if err != nil {
		return err
	}
	return c.respond(http.StatusOK, obj)
}

// listOptions decodes the query of a list or watch, and validates it with kube-apiserver's rules.
func (c *call) listOptions() (*internalversion.ListOptions, error) {
	options := &internalversion.ListOptions{}
	if err := c.decodeQuery(options); err != nil {
		return nil, err
	}
	options.Watch = c.request.Verb == "watch"
	watchList := !c.options.DisableWatchList
	internalversion.SetListOptionsDefaults(options, watchList)
	if errs := internalvalidation.ValidateListOptions(options, watchList); len(errs) > 0 {
		return nil, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", errs)
	}
	if options.FieldSelector != nil {
		var err error
		if options.FieldSelector, err = options.FieldSelector.Transform(c.table.resource.checkFieldLabel); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	return options, nil
}

func (c *call) decodeQuery(into runtime.Object) error {
	if err := internalscheme.ParameterCodec.DecodeParameters(c.request.Query, metav1.SchemeGroupVersion, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

func (c *call) selection(options *internalversion.ListOptions) *selection {
	sel := newSelection(c.table.resource, c.namespace(), options.LabelSelector, options.FieldSelector)
	if c.request.Verb == "watch" {
		// The name from a /watch/ path, or the one that the field selector has too.
		sel.name = c.request.Name
	}
	return sel
}

// listOf returns the typed list of the kind. Items in a list have no TypeMeta.
func (c *call) listOf(objects []object, list metav1.ListMeta) (runtime.Object, error) {
	gvk := c.table.resource.gvk()
	gvk.Kind += "List"
	if c.table.resource.custom {
		return customListOf(gvk, objects, list), nil
	}
	obj, err := scheme.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	items := make([]runtime.Object, len(objects))
	for i := range objects {
		items[i] = objects[i]
	}
	// SetList copies the structs, so that EachListItem does not change objects in the store.
	if err := meta.SetList(obj, items); err != nil {
		return nil, err
	}
	if err := meta.EachListItem(obj, func(item runtime.Object) error {
		item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		return nil
	}); err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	accessor, err := meta.ListAccessor(obj)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion(list.ResourceVersion)
	accessor.SetContinue(list.Continue)
	accessor.SetRemainingItemCount(list.RemainingItemCount)
	return obj, nil
}

// parseVersion parses a resourceVersion. Both "" and "0" are zero.
func parseVersion(version string) (uint64, *field.Error) {
	if version == "" {
		return 0, nil
	}
	parsed, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0, field.Invalid(field.NewPath("resourceVersion"), version, err.Error())
	}
	return parsed, nil
}

// tooLarge returns the error for a version that the server has not reached. kube-apiserver waits three seconds for its
// watch cache to reach it; this server waits only during a [Server.Lag].
func tooLarge(version, current uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", version, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{
		{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"},
	}
	return err
}
