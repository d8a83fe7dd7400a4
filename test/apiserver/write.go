// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (c *call) create() error {
	var options metav1.CreateOptions
	if err := c.decodeQuery(&options); err != nil {
		return err
	}
	if errs := metav1validation.ValidateCreateOptions(&options); len(errs) > 0 {
		return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("CreateOptions").GroupKind(), "", errs)
	}
	obj, err := c.decodeBody(options.FieldValidation)
	if err != nil {
		return err
	}
	created, err := c.insert(obj, len(options.DryRun) > 0)
	if err != nil {
		return err
	}
	return c.respond(http.StatusCreated, created)
}

// maxNameAttempts is the maximum number of names generated for one object, as in kube-apiserver.
const maxNameAttempts = 8

// insert creates obj in the store. It owns obj.
func (c *call) insert(obj object, dryRun bool) (object, error) {
	if obj.GetResourceVersion() != "" {
		// Not an API error: as in kube-apiserver, the response is 500.
		return nil, errors.New("resourceVersion should not be set on objects to be created")
	}
	if err := c.matchNamespace(obj); err != nil {
		return nil, err
	}
	obj.SetUID(uuid.NewUUID())
	// In seconds, as encoded, so that the stored object equals the one that a client reads.
	obj.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetSelfLink("")
	obj.SetGeneration(0)
	generate := obj.GetName() == "" && obj.GetGenerateName() != ""
	for attempt := 1; ; attempt++ {
		if generate {
			obj.SetName(generatedName(obj.GetGenerateName()))
		}
		stored, err := c.insertNamed(obj, dryRun)
		if !errors.Is(err, errStale) {
			return stored, err
		}
		if !generate || attempt == maxNameAttempts {
			return nil, apierrors.NewAlreadyExists(c.groupResource(), obj.GetName())
		}
	}
}

func (c *call) insertNamed(obj object, dryRun bool) (object, error) {
	c.table.resource.prepareObject(obj, nil, "")
	if err := c.table.resource.check(obj, nil, ""); err != nil {
		return nil, err
	}
	if dryRun {
		return c.store.dryRunCreate(c.table, keyOf(obj), obj)
	}
	return c.store.swap(c.table, keyOf(obj), nil, obj)
}

// generatedName appends five random characters to base. The result has at most 63 characters, as a DNS label.
func generatedName(base string) string {
	const suffix, maxLength = 5, 63
	return base[:min(len(base), maxLength-suffix)] + rand.String(suffix)
}

func (c *call) update() error {
	var options metav1.UpdateOptions
	if err := c.decodeQuery(&options); err != nil {
		return err
	}
	if errs := metav1validation.ValidateUpdateOptions(&options); len(errs) > 0 {
		return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("UpdateOptions").GroupKind(), "", errs)
	}
	obj, err := c.decodeBody(options.FieldValidation)
	if err != nil {
		return err
	}
	stored, err := c.modify(c.key(), len(options.DryRun) > 0, func(object) (object, error) {
		return obj.DeepCopyObject().(object), nil // a new copy for each attempt: modify changes it
	})
	if err != nil {
		return err
	}
	return c.respond(http.StatusOK, stored)
}

// modify reads, changes and writes an object, and starts over if another write came between. change must not modify
// current, and returns a new object.
func (c *call) modify(key types.NamespacedName, dryRun bool, change func(current object) (object, error)) (object, error) {
	for {
		current, _ := c.store.get(c.table, key)
		if current == nil {
			return nil, apierrors.NewNotFound(c.groupResource(), key.Name)
		}
		next, err := change(current)
		if err != nil {
			return nil, err
		}
		if err := c.complete(next, current); err != nil {
			return nil, err
		}
		stored, err := c.replace(key, current, next, dryRun)
		if !errors.Is(err, errStale) {
			return stored, err
		}
	}
}

// complete validates next, and sets the fields that an update cannot change to those of current.
func (c *call) complete(next, current object) error {
	if next.GetName() != c.request.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", next.GetName(), c.request.Name))
	}
	if err := c.matchNamespace(next); err != nil {
		return err
	}
	if uid := next.GetUID(); uid != "" && uid != current.GetUID() {
		return c.failedPrecondition(next.GetName(), "UID", string(uid), string(current.GetUID()))
	}
	switch version := next.GetResourceVersion(); {
	case version == "" || version == "0":
		if c.table.resource.updateNeedsVersion {
			path := field.NewPath("metadata", "resourceVersion")
			// The kind is the resource name, as in kube-apiserver.
			return apierrors.NewInvalid(schema.GroupKind{Group: c.groupResource().Group, Kind: c.table.resource.name}, next.GetName(),
				field.ErrorList{field.Invalid(path, uint64(0), "must be specified for an update")})
		}
	case version != current.GetResourceVersion():
		return apierrors.NewConflict(c.groupResource(), next.GetName(),
			errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	next.SetResourceVersion(current.GetResourceVersion())
	next.SetUID(current.GetUID())
	next.SetGeneration(current.GetGeneration())
	next.SetCreationTimestamp(current.GetCreationTimestamp())
	next.SetDeletionTimestamp(current.GetDeletionTimestamp())
	next.SetDeletionGracePeriodSeconds(current.GetDeletionGracePeriodSeconds())
	c.table.resource.prepareObject(next, current, c.request.Subresource)
	return c.table.resource.check(next, current, c.request.Subresource)
}

// replace replaces current by next. If they are equal, it writes nothing: no new version, no event. If next has no
// finalizers and is being deleted, replace deletes the object.
func (c *call) replace(key types.NamespacedName, current, next object, dryRun bool) (object, error) {
	switch {
	case equality.Semantic.DeepEqual(current, next):
		return current, nil
	case dryRun:
		return next, nil
	case current.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0:
		// The response has next, the watch event has the stored state.
		_, err := c.store.swap(c.table, key, current, nil)
		return next, err
	default:
		return c.store.swap(c.table, key, current, next)
	}
}

// matchNamespace sets the namespace of obj to that of the request, and returns an error if obj has another.
func (c *call) matchNamespace(obj object) error {
	switch want := c.namespace(); {
	case obj.GetNamespace() == want:
	case want == "" && c.table.resource.namespaced:
		return apierrors.NewBadRequest("an empty namespace may not be set during creation")
	case obj.GetNamespace() == "" || want == "":
		obj.SetNamespace(want)
	default:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

func (c *call) failedPrecondition(name, field, want, got string) error {
	//nolint:staticcheck // kube-apiserver's text begins with a capital letter.
	return apierrors.NewConflict(c.groupResource(), name, fmt.Errorf(
		"Precondition failed: %s in precondition: %s, %s in object meta: %s", field, want, field, got))
}
