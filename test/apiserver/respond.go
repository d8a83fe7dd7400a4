// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// respond sends obj in the form that the client accepts. The TypeMeta of obj must be set. respond does not change obj,
// so that callers can pass objects of the store.
func (c *call) respond(code int, obj runtime.Object) error {
	obj = c.rewriteObject(obj)
	_, custom := obj.(runtime.Unstructured)
	out, err := negotiateOutput(c.r, custom, false)
	if err != nil {
		return err
	}
	converted, err := c.convert(obj, out.as, time.Now())
	if err != nil {
		return err
	}
	// Encode before the first byte is sent, so that an error can still be the response.
	var body bytes.Buffer
	if err := out.encoder(c.r).Encode(converted, &body); err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", out.MediaType)
	c.w.WriteHeader(code)
	// An error means that the client has disconnected.
	_, _ = c.w.Write(body.Bytes())
	return nil
}

// encoder returns the encoder for the request: an indenting one for ?pretty=true.
func (o output) encoder(r *http.Request) runtime.Encoder {
	if pretty, err := strconv.ParseBool(r.URL.Query().Get("pretty")); err == nil && pretty && o.PrettySerializer != nil {
		return o.PrettySerializer
	}
	return o.Serializer
}

// convert returns obj in the form as: a table, metadata only, or obj itself. A Status is never converted.
func (c *call) convert(obj runtime.Object, as string, now time.Time) (runtime.Object, error) {
	if _, ok := obj.(*metav1.Status); ok || as == "" {
		return obj, nil
	}
	if as == "Table" {
		return c.tableOf(obj, now)
	}
	if single, ok := obj.(object); ok {
		return partialMetadata(single), nil
	}
	list := &metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "PartialObjectMetadataList"},
		Items:    []metav1.PartialObjectMetadata{},
	}
	accessor, err := meta.ListAccessor(obj)
	if err != nil {
		return nil, err
	}
	list.ResourceVersion, list.Continue = accessor.GetResourceVersion(), accessor.GetContinue()
	list.RemainingItemCount = accessor.GetRemainingItemCount()
	err = meta.EachListItem(obj, func(item runtime.Object) error {
		list.Items = append(list.Items, *partialMetadata(item.(object)))
		return nil
	})
	return list, err
}

func partialMetadata(obj object) *metav1.PartialObjectMetadata {
	partial := meta.AsPartialObjectMetadata(obj)
	partial.TypeMeta = metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "PartialObjectMetadata"}
	return partial
}

// respondError sends err as a Status, in JSON if the client accepts no media type of the server.
func (c *call) respondError(err error) {
	status := statusOf(err)
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		c.w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	if c.respond(int(status.Code), status) != nil {
		c.r.Header.Del("Accept")
		_ = c.respond(int(status.Code), status)
	}
}

// statusOf returns the Status of an APIStatus error, with defaults set. Any other error is 500, as in kube-apiserver.
func statusOf(err error) *metav1.Status {
	status := metav1.Status{Reason: metav1.StatusReasonUnknown, Message: err.Error()}
	var apiStatus apierrors.APIStatus
	if errors.As(err, &apiStatus) {
		status = apiStatus.Status()
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	setDefault(&status.Status, metav1.StatusFailure)
	setDefault(&status.Code, http.StatusInternalServerError)
	return &status
}

// deletionStatus returns the response to the deletion of obj.
func (c *call) deletionStatus(obj object) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusSuccess,
		// Kind is the resource name, as in kube-apiserver.
		Details: &metav1.StatusDetails{
			Name: obj.GetName(), Group: c.groupResource().Group, Kind: c.groupResource().Resource, UID: obj.GetUID(),
		},
	}
}

// warn adds a warning header to the response. kubectl prints it.
func (c *call) warn(text string) {
	if header, err := utilnet.NewWarningHeader(299, "-", text); err == nil {
		c.w.Header().Add("Warning", header)
	}
}
