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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
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

// maxNameAttempts is how often a generated name that is taken is generated anew, as in kube-apiserver.
const maxNameAttempts = 8

// insert gives obj its place in the store. It takes obj over.
func (c *call) insert(obj object, dryRun bool) (object, error) {
	if obj.GetResourceVersion() != "" {
		// Not an API error in kube-apiserver either: it answers 500.
		return nil, errors.New("resourceVersion should not be set on objects to be created")
	}
	if err := c.matchNamespace(obj); err != nil {
		return nil, err
	}
	obj.SetUID(uuid.NewUUID())
	// Seconds, as on the wire: what is stored equals what a client reads back.
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
		return c.store.wouldCreate(c.table, keyOf(obj), obj)
	}
	return c.store.swap(c.table, keyOf(obj), nil, obj)
}

// generatedName appends five random characters; the result fits a DNS label.
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
		return obj.DeepCopyObject().(object), nil // a copy each time: modify completes it
	})
	if err != nil {
		return err
	}
	return c.respond(http.StatusOK, stored)
}

// modify reads, changes and writes until nobody else has written in between. change gets what is stored,
// must leave it alone, and returns a new object.
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

// complete checks next against current, and carries over what an update cannot change.
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
	if version := next.GetResourceVersion(); version != "" && version != "0" && version != current.GetResourceVersion() {
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

// replace writes next in the place of current. A write that changes nothing is none: no version, no event.
// One that takes the last finalizer off an object whose deletion is under way deletes it.
func (c *call) replace(key types.NamespacedName, current, next object, dryRun bool) (object, error) {
	switch {
	case equality.Semantic.DeepEqual(current, next):
		return current, nil
	case dryRun:
		return next, nil
	case current.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0:
		// The client gets what it sent, the watchers what was stored.
		_, err := c.store.swap(c.table, key, current, nil)
		return next, err
	default:
		return c.store.swap(c.table, key, current, next)
	}
}

// matchNamespace fills the namespace in, or refuses another one.
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
	//nolint:staticcheck // The text is the real server's, capital and all.
	return apierrors.NewConflict(c.groupResource(), name, fmt.Errorf(
		"Precondition failed: %s in precondition: %s, %s in object meta: %s", field, want, field, got))
}
