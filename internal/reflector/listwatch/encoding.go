// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"encoding/json"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/redact"
)

// encoding is how client-go decodes the streams of one content type.
type encoding struct {
	object runtime.Decoder
	event  runtime.Decoder
}

func encodingOf(contentType string) func() encoding {
	return sync.OnceValue(func() encoding {
		negotiator := runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), schema.GroupVersion{})
		// It fails for a content type that the codecs do not know.
		object, event, _, _ := negotiator.StreamDecoder(contentType, nil)
		return encoding{object, event}
	})
}

var (
	protobufEncoding = encodingOf(runtime.ContentTypeProtobuf)
	jsonEncoding     = encodingOf(runtime.ContentTypeJSON)
)

// protobufPrefix begins each object in protobuf (package
// k8s.io/apimachinery/pkg/runtime/serializer/protobuf).
var protobufPrefix = []byte("k8s\x00")

// accept sets the media types of the answer to a request. answer is the type that the
// answer is decoded into, and object that of one object.
func accept(request *rest.Request, answer, object runtime.Object) {
	_, isMetadata := object.(*metav1.PartialObjectMetadata)
	switch {
	case isMetadata:
		// As client-go's metadata client does. A server that does not know the
		// transformation sends the whole objects in JSON.
		request.SetHeader("Accept", metadataTypes(answer)+","+runtime.ContentTypeJSON)
	case isProtobuf(answer):
		request.UseProtobufAsDefault()
	default:
		// The config of the client may prefer protobuf, or CBOR.
		request.SetHeader("Accept", runtime.ContentTypeJSON)
	}
}

// metadataTypes returns the media types of an answer of metadata only, of the type of into.
func metadataTypes(into runtime.Object) string {
	kind := metadataKind(into)
	as := ";as=" + kind.Kind + ";g=" + kind.Group + ";v=" + kind.Version
	return runtime.ContentTypeProtobuf + as + "," + runtime.ContentTypeJSON + as
}

// isProtobuf reports whether an object can be decoded from protobuf.
func isProtobuf(object runtime.Object) bool {
	_, ok := object.(interface{ Unmarshal([]byte) error })
	return ok
}

// decodeAnswer decodes the answer to a list or a get into an object of its type. Like the
// events of a stream, it is decoded by the codecs of this package, whatever serializer
// the client has.
func (r *RESTResource) decodeAnswer(body []byte, contentType string, into runtime.Object) (runtime.Object, error) {
	answer, kind, err := decodeObject(decoderOf(body), body, into)
	if err != nil {
		return nil, undecodedAnswer(body, contentType, err)
	}
	if status, ok := answer.(*metav1.Status); ok && status.Status != metav1.StatusSuccess {
		return nil, apierrors.FromObject(status)
	}
	if err := r.check(answer, into, kind); err != nil {
		return nil, err
	}
	return answer, nil
}

// decoderOf returns the decoder of an answer.
func decoderOf(body []byte) runtime.Decoder {
	if bytes.HasPrefix(body, protobufPrefix) {
		return protobufEncoding().object
	}
	return jsonEncoding().object
}

// decodeList decodes the answer to a list. One object, decoded into a list type that the
// scheme does not have, is a list without items: as a list it would prove that the object
// is absent. Only an object has a name.
func (r *RESTResource) decodeList(body []byte, contentType string, into runtime.Object) (runtime.Object, error) {
	list, err := r.decodeAnswer(body, contentType, into)
	if err != nil {
		return nil, err
	}
	if untyped, ok := list.(*unstructured.UnstructuredList); ok {
		for i := range untyped.Items {
			if err := r.checkVersion(untyped.Items[i].GroupVersionKind(), untyped); err != nil {
				return nil, err
			}
		}
	}
	if meta.LenList(list) > 0 {
		return list, nil
	}
	var object metav1.PartialObjectMetadata
	if json.Unmarshal(body, &object) == nil && object.Name != "" { // protobuf is no JSON
		return nil, redact.Errorf("%w: one object where a list belongs", cache.ErrMalformed)
	}
	return list, nil
}

// decodeObject decodes an object into one of its type, if it is of that type. The decoders
// drop kind and apiVersion. Typed clients do so too, but an object without a Go type needs
// them.
func decodeObject(decoder runtime.Decoder, data []byte, into runtime.Object) (runtime.Object, schema.GroupVersionKind, error) {
	object, kind, err := decoder.Decode(data, nil, into)
	if err != nil {
		return nil, schema.GroupVersionKind{}, undecodable(err)
	}
	if _, ok := object.(runtime.Unstructured); ok {
		object.GetObjectKind().SetGroupVersionKind(*kind)
	}
	return object, *kind, nil
}

// check returns an error if an object is not of the resource. The decoders make an object
// of another type than into if the scheme has the types of both. If it does not have that
// of into, they decode any kind into it: the group and version are compared, for the kind is
// not known.
func (r *RESTResource) check(object, into runtime.Object, kind schema.GroupVersionKind) error {
	if object != into {
		return redact.Errorf("%w: a %T where a %T belongs", cache.ErrMalformed, object, into)
	}
	return r.checkVersion(kind, into)
}

func (r *RESTResource) checkVersion(kind schema.GroupVersionKind, into runtime.Object) error {
	want := r.Client.APIVersion()
	if kind.GroupVersion() == want || kind == metadataKind(into) {
		return nil
	}
	if scheme.Scheme.Recognizes(kind) {
		return redact.Errorf("%w: a %s of %q where an object of %q belongs", cache.ErrMalformed, kind.Kind, kind.GroupVersion(), want)
	}
	// Without that of the object: where bodies are mixed up, it may be data.
	return redact.Errorf("%w: an object of another group and version where one of %q belongs", cache.ErrMalformed, want)
}

// metadataKind returns the kind of an answer of metadata only, if into is of its type. A
// server that does not know the transformation sends the kind of the resource.
func metadataKind(into runtime.Object) schema.GroupVersionKind {
	switch into.(type) {
	case *metav1.PartialObjectMetadata:
		return metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")
	case *metav1.PartialObjectMetadataList:
		return metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList")
	}
	return schema.GroupVersionKind{}
}

var (
	errNoKind      = redact.Errorf("%w: an object without a kind, or without a version", cache.ErrMalformed)
	errUnknownKind = redact.Errorf("%w: an object of a kind that client-go's scheme does not have", cache.ErrMalformed)
)

// undecodable replaces the error of a decoder, which may quote an object.
func undecodable(err error) error {
	switch {
	case runtime.IsMissingKind(err), runtime.IsMissingVersion(err):
		return errNoKind
	case runtime.IsNotRegisteredError(err): // its name may be data
		return errUnknownKind
	}
	return redact.Errorf("%w: a frame that cannot be decoded (%T)", cache.ErrMalformed, err)
}
