// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// patchTypes returns the media types of patches, in kube-apiserver's order.
func (r *resource) patchTypes() []string {
	if r.custom { // a strategic merge needs the Go type
		return []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType)}
	}
	return []string{
		string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType), string(types.ApplyYAMLPatchType),
	}
}

// applyPatch returns the JSON of the patched object.
type applyPatch func(original, patch []byte) ([]byte, error)

func (c *call) patch() error {
	mediaType, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	accepted := c.table.resource.patchTypes()
	if !slices.Contains(accepted, mediaType) {
		return unsupportedMediaType(accepted)
	}
	apply := c.patcher(types.PatchType(mediaType))
	var options metav1.PatchOptions
	if err := c.decodeQuery(&options); err != nil {
		return err
	}
	if errs := metav1validation.ValidatePatchOptions(&options, types.PatchType(mediaType)); len(errs) > 0 {
		return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("PatchOptions").GroupKind(), "", errs)
	}
	patch, err := c.readBody()
	if err != nil {
		return err
	}
	if types.PatchType(mediaType) == types.ApplyYAMLPatchType {
		return c.serverSideApply(apply, patch, &options)
	}
	stored, err := c.modifyByPatch(apply, patch, &options)
	if err != nil {
		return err
	}
	return c.respond(http.StatusOK, stored)
}

func (c *call) patcher(patchType types.PatchType) applyPatch {
	switch {
	case patchType == types.JSONPatchType:
		return applyJSONPatch
	case patchType == types.MergePatchType, c.table.resource.custom:
		return applyMergePatch
	default:
		return c.applyStrategicPatch
	}
}

func (c *call) modifyByPatch(apply applyPatch, patch []byte, options *metav1.PatchOptions) (object, error) {
	return c.modify(c.key(), len(options.DryRun) > 0, func(current object) (object, error) {
		original, err := json.Marshal(current)
		if err != nil {
			return nil, err
		}
		patched, err := apply(original, patch)
		if err != nil {
			return nil, err
		}
		next, err := c.decode(c.table.resource.mediaTypes()[0], patched, options.FieldValidation)
		if err != nil {
			// The real server quotes the whole patched object. This one keeps object data out of errors.
			return nil, apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{
				field.Invalid(field.NewPath("patch"), "<contents redacted>", err.Error()),
			})
		}
		return next, nil
	})
}

// serverSideApply merges the configuration into the object, or creates the object. There are no field managers: nothing
// conflicts, and a field that the configuration omits is kept.
func (c *call) serverSideApply(apply applyPatch, config []byte, options *metav1.PatchOptions) error {
	patch, err := yaml.YAMLToJSON(config)
	if err != nil {
		return apierrors.NewBadRequest("error decoding YAML: " + err.Error())
	}
	// The configuration must itself be an object of the kind.
	obj, err := c.decode(c.table.resource.mediaTypes()[0], patch, options.FieldValidation)
	if err != nil {
		return err
	}
	if len(obj.GetManagedFields()) > 0 {
		return apierrors.NewBadRequest("metadata.managedFields must be nil")
	}
	for {
		stored, err := c.modifyByPatch(apply, patch, options)
		if err == nil {
			return c.respond(http.StatusOK, stored)
		}
		if !apierrors.IsNotFound(err) || c.request.Subresource != "" {
			return err
		}
		created := obj.DeepCopyObject().(object)
		created.SetName(c.request.Name)
		created, err = c.insert(created, len(options.DryRun) > 0)
		if err == nil {
			return c.respond(http.StatusCreated, created)
		}
		// AlreadyExists: another client has created it meanwhile. Merge into that object.
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
}

func applyJSONPatch(original, patch []byte) ([]byte, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	patched, err := operations.Apply(original)
	if err != nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	return patched, nil
}

func applyMergePatch(original, patch []byte) ([]byte, error) {
	patched, err := jsonpatch.MergePatch(original, patch)
	if errors.Is(err, jsonpatch.ErrBadJSONPatch) {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return patched, err
}

func (c *call) applyStrategicPatch(original, patch []byte) ([]byte, error) {
	if !json.Valid(patch) {
		return nil, apierrors.NewBadRequest("error decoding patch: not valid JSON")
	}
	patched, err := strategicpatch.StrategicMergePatch(original, patch, c.table.resource.newObject())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return patched, nil
}
