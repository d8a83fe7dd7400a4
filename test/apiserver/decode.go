// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// maxBody is the maximum size of a request body in bytes, as in kube-apiserver.
const maxBody = 3 << 20

// readBody returns the request body, or error 413 if it is larger than maxBody.
func (c *call) readBody() ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, c.r.Body, maxBody))
	var tooLong *http.MaxBytesError
	if errors.As(err, &tooLong) {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", tooLong.Limit))
	}
	if err != nil {
		return nil, apierrors.NewBadRequest("reading the body: " + err.Error())
	}
	return body, nil
}

// decodeBody reads an object of the kind from the request body. validation says how to treat unknown fields: Ignore,
// Warn (the default) or Strict.
func (c *call) decodeBody(validation string) (object, error) {
	info, err := negotiateInput(c.r, c.table.resource.mediaTypes())
	if err != nil {
		return nil, err
	}
	body, err := c.readBody()
	if err != nil {
		return nil, err
	}
	return c.decode(info, body, validation)
}

func (c *call) decode(info runtime.SerializerInfo, body []byte, validation string) (object, error) {
	want := c.table.resource.gvk()
	decoder := info.StrictSerializer
	if validation == metav1.FieldValidationIgnore {
		decoder = info.Serializer
	}
	decoded, gvk, err := decoder.Decode(body, &want, nil)
	if strict, ok := runtime.AsStrictDecodingError(err); ok && validation != metav1.FieldValidationStrict && decoded != nil {
		for _, problem := range strict.Errors() {
			c.warn(problem.Error())
		}
		err = nil
	}
	if err != nil {
		return nil, decodeError(err, gvk, want.Kind)
	}
	obj, ok := decoded.(object)
	if !ok || gvk.Kind != want.Kind || gvk.Group != want.Group {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s", gvk.Kind, gvk.Version, want.Kind))
	}
	if gvk.Version != want.Version {
		return nil, apierrors.NewBadRequest(fmt.Sprintf(
			"the API version in the data (%s) does not match the expected API version (%s)", gvk.GroupVersion(), want.GroupVersion()))
	}
	if custom, ok := obj.(*unstructured.Unstructured); ok {
		if err := checkMetadata(custom); err != nil {
			return nil, decodeError(err, gvk, want.Kind)
		}
	}
	obj.GetObjectKind().SetGroupVersionKind(want)
	return obj, nil
}

// decodeError returns kube-apiserver's error without the first bytes of the body, which the real one adds.
func decodeError(err error, gvk *schema.GroupVersionKind, want string) error {
	if gvk != nil && gvk.Kind != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", gvk.Kind, gvk.Version, want, err))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v", want, err))
}

// namespace returns the namespace of the requested objects. It is empty for a Namespace, whose path names itself.
func (c *call) namespace() string {
	if !c.table.resource.namespaced {
		return ""
	}
	return c.request.Namespace
}

func (c *call) key() types.NamespacedName {
	return types.NamespacedName{Namespace: c.namespace(), Name: c.request.Name}
}
