// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector/internal/redact"
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
		kind := "PartialObjectMetadata"
		if answer != object {
			kind = "PartialObjectMetadataList"
		}
		as := ";as=" + kind + ";g=" + metav1.GroupName + ";v=v1"
		request.SetHeader("Accept", runtime.ContentTypeProtobuf+as+","+runtime.ContentTypeJSON+as+","+runtime.ContentTypeJSON)
	case isProtobuf(answer):
		request.UseProtobufAsDefault()
	default:
		// The config of the client may prefer protobuf, or CBOR.
		request.SetHeader("Accept", runtime.ContentTypeJSON)
	}
}

// isProtobuf reports whether an object can be decoded from protobuf.
func isProtobuf(object runtime.Object) bool {
	_, ok := object.(interface{ Unmarshal([]byte) error })
	return ok
}

// decodeAnswer decodes the answer to a list or a get into an object of its type. Like the
// events of a stream, it is decoded by the codecs of this package, whatever serializer
// the client has.
func decodeAnswer(body []byte, into runtime.Object) (runtime.Object, error) {
	decoder := jsonEncoding().object
	if bytes.HasPrefix(body, protobufPrefix) {
		decoder = protobufEncoding().object
	}
	answer, err := decodeObject(decoder, body, into)
	if err != nil {
		return nil, undecodable(err)
	}
	if status, ok := answer.(*metav1.Status); ok && status.Status != metav1.StatusSuccess {
		return nil, redact.Loggable(apierrors.FromObject(status))
	}
	return answer, nil
}

// decodeObject decodes an object into one of its type. The decoders drop kind and
// apiVersion. Typed clients do so too, but an object without a Go type needs them.
func decodeObject(decoder runtime.Decoder, data []byte, into runtime.Object) (runtime.Object, error) {
	object, kind, err := decoder.Decode(data, nil, into)
	if err != nil {
		return nil, err
	}
	if _, ok := object.(runtime.Unstructured); ok {
		object.GetObjectKind().SetGroupVersionKind(*kind)
	}
	return object, nil
}

// undecodable replaces the error of a decoder, which may quote an object.
func undecodable(err error) error {
	return redact.Loggable(fmt.Errorf("%w: a frame that cannot be decoded (%T)", cache.ErrMalformed, err))
}
