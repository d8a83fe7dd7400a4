// SPDX-License-Identifier: Apache-2.0

package stub

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

const contentType = runtime.ContentTypeProtobuf

// encode returns an object as kube-apiserver sends it in protobuf: with its kind in front.
func encode(object runtime.Object) ([]byte, error) {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), contentType)
	if !ok {
		return nil, errors.New("client-go has no protobuf")
	}
	var encoded bytes.Buffer
	err := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).Encode(object, &encoded)
	return encoded.Bytes(), err
}

// frame returns an event with its length in front.
func frame(kind watch.EventType, encoded []byte) ([]byte, error) {
	event := metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: encoded}}
	framed := make([]byte, 4+event.Size())
	_, err := event.MarshalToSizedBuffer(framed[4:])
	binary.BigEndian.PutUint32(framed, uint32(len(framed)-4))
	return framed, err
}

// bookmark returns the event that ends the initial events of a watch.
func bookmark(version uint64) ([]byte, error) {
	encoded, err := encode(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: strconv.FormatUint(version, 10),
		Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
	if err != nil {
		return nil, err
	}
	return frame(watch.Bookmark, encoded)
}

// listOf returns a list of one Secret, or of none.
func listOf(encoded []byte, version uint64) ([]byte, error) {
	list := &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatUint(version, 10)}}
	if encoded != nil {
		var one corev1.Secret
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(encoded, nil, &one); err != nil {
			return nil, err
		}
		list.Items = append(list.Items, one)
	}
	return encode(list)
}
