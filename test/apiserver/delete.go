// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func (c *call) delete() error {
	options, err := c.deleteOptions()
	if err != nil {
		return err
	}
	last, deleted, err := c.remove(c.key(), options)
	if err != nil {
		return err
	}
	if deleted && !c.table.resource.returnsDeleted {
		return c.respond(http.StatusOK, c.deletionStatus(last))
	}
	return c.respond(http.StatusOK, last)
}

// deleteCollection deletes the objects that a list with the same query returns, and responds with that list.
func (c *call) deleteCollection() error {
	options, err := c.deleteOptions()
	if err != nil {
		return err
	}
	listOptions, err := c.listOptions()
	if err != nil {
		return err
	}
	objects, version, err := c.cache.list(c.table, c.selection(listOptions), listPlan{})
	if err != nil {
		return err
	}
	for _, obj := range objects {
		// NotFound: another client has deleted it meanwhile.
		if _, _, err := c.remove(keyOf(obj), options); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	list, err := c.listOf(objects, metav1.ListMeta{ResourceVersion: formatVersion(version)})
	if err != nil {
		return err
	}
	return c.respond(http.StatusOK, list)
}

// deleteOptions reads the options from the body or, if it is empty, from the query. They may have any group version.
func (c *call) deleteOptions() (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	body, err := c.readBody()
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		err = c.decodeQuery(options)
	} else {
		err = c.decodeDeleteOptions(body, options)
	}
	if err != nil {
		return nil, err
	}
	if errs := metav1validation.ValidateDeleteOptions(options); len(errs) > 0 {
		return nil, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("DeleteOptions").GroupKind(), "", errs)
	}
	return options, nil
}

func (c *call) decodeDeleteOptions(body []byte, into *metav1.DeleteOptions) error {
	negotiated, err := negotiateInput(c.r, mediaTypes)
	if err != nil {
		return err
	}
	codecs := internalscheme.Codecs
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), negotiated.MediaType)
	if !ok {
		return unsupportedMediaType([]string{runtime.ContentTypeJSON})
	}
	defaults := schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"}
	decoded, _, err := codecs.DecoderToVersion(info.Serializer, defaults.GroupVersion()).Decode(body, &defaults, into)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if decoded != into {
		return apierrors.NewBadRequest("decoded object cannot be converted to DeleteOptions")
	}
	return nil
}

// remove deletes an object or, if it has finalizers, sets its deletionTimestamp. It returns the last state, and whether
// the object is deleted. It does not wait for the grace period.
func (c *call) remove(key types.NamespacedName, options *metav1.DeleteOptions) (object, bool, error) {
	for {
		current, _ := c.store.get(c.table, key)
		if current == nil {
			return nil, false, apierrors.NewNotFound(c.groupResource(), key.Name)
		}
		if err := c.checkPreconditions(current, options.Preconditions); err != nil {
			return nil, false, err
		}
		deleted := len(current.GetFinalizers()) == 0
		if len(options.DryRun) > 0 || !deleted && current.GetDeletionTimestamp() != nil {
			return current, deleted, nil
		}
		var next object
		if !deleted {
			next = markDeleted(current)
		}
		last, err := c.store.swap(c.table, key, current, next)
		if !errors.Is(err, errStale) {
			return last, deleted, err
		}
	}
}

func markDeleted(current object) object {
	marked := current.DeepCopyObject().(object)
	now := metav1.Now().Rfc3339Copy()
	marked.SetDeletionTimestamp(&now)
	marked.SetDeletionGracePeriodSeconds(new(int64))
	if marked.GetGeneration() > 0 {
		marked.SetGeneration(marked.GetGeneration() + 1)
	}
	return marked
}

func (c *call) checkPreconditions(current object, want *metav1.Preconditions) error {
	switch {
	case want == nil:
		return nil
	case want.UID != nil && *want.UID != current.GetUID():
		return c.failedPrecondition(current.GetName(), "UID", string(*want.UID), string(current.GetUID()))
	case want.ResourceVersion != nil && *want.ResourceVersion != current.GetResourceVersion():
		return c.failedPrecondition(current.GetName(), "ResourceVersion", *want.ResourceVersion, current.GetResourceVersion())
	default:
		return nil
	}
}
