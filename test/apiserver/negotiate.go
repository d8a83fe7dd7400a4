// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/munnerz/goautoneg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// mediaTypes are the media types that the server reads and writes. The first is the default.
var mediaTypes = func() []runtime.SerializerInfo {
	var infos []runtime.SerializerInfo
	for _, info := range scheme.Codecs.SupportedMediaTypes() {
		switch info.MediaType {
		case runtime.ContentTypeJSON, runtime.ContentTypeYAML, runtime.ContentTypeProtobuf:
			infos = append(infos, info)
		}
	}
	return infos
}()

// output is the negotiated form of a response.
type output struct {
	runtime.SerializerInfo
	as string // "Table", "PartialObjectMetadata", "PartialObjectMetadataList" or empty: the object itself
}

// negotiateOutput returns the first clause of the Accept header that the server can serve. A stream needs a media type
// with framing; YAML has none. custom is true for custom resources, of which only the metadata can be protobuf.
func negotiateOutput(r *http.Request, custom, stream bool) (output, error) {
	accept := r.Header.Get("Accept")
	if accept == "" {
		return output{SerializerInfo: mediaTypes[0]}, nil
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		for _, info := range mediaTypes {
			out := output{info, clause.Params["as"]}
			if matchesMediaType(clause, info) && out.servable(clause, custom, stream) {
				return out, nil
			}
		}
	}
	return output{}, notAcceptable(stream)
}

func matchesMediaType(clause goautoneg.Accept, info runtime.SerializerInfo) bool {
	if clause.Type != "*" && clause.Type != info.MediaTypeType {
		return false
	}
	return clause.SubType == "*" || clause.SubType == info.MediaTypeSubType
}

// servable reports whether the server can serve o with the parameters of the clause.
func (o output) servable(clause goautoneg.Accept, custom, stream bool) bool {
	if s := clause.Params["stream"]; s != "" && s != "watch" || stream && o.StreamSerializer == nil {
		return false
	}
	if o.as == "" {
		return !custom || o.MediaType != runtime.ContentTypeProtobuf
	}
	if g, v := clause.Params["g"], clause.Params["v"]; g != metav1.GroupName || v != "v1" {
		return false
	}
	switch o.as {
	case "Table":
		// As in kube-apiserver, tables have no protobuf form.
		return o.MediaType != runtime.ContentTypeProtobuf
	case "PartialObjectMetadata", "PartialObjectMetadataList":
		return true
	default:
		return false
	}
}

// negotiateInput returns the serializer for the request body: one of accepted. Without a Content-Type it is the first.
func negotiateInput(r *http.Request, accepted []runtime.SerializerInfo) (runtime.SerializerInfo, error) {
	contentType := r.Header.Get("Content-Type")
	if contentType == "" {
		return accepted[0], nil
	}
	if mediaType, _, err := mime.ParseMediaType(contentType); err == nil {
		if info, ok := runtime.SerializerInfoForMediaType(accepted, mediaType); ok {
			return info, nil
		}
	}
	var names []string
	for _, info := range accepted {
		names = append(names, info.MediaType)
	}
	return runtime.SerializerInfo{}, unsupportedMediaType(names)
}

func notAcceptable(stream bool) error {
	var names []string
	for _, info := range mediaTypes {
		switch {
		case !stream:
			names = append(names, info.MediaType)
		case info.StreamSerializer != nil:
			names = append(names, info.MediaType+";stream=watch")
		}
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: fmt.Sprintf("only the following media types are accepted: %s", strings.Join(names, ", ")),
	}}
}

func unsupportedMediaType(accepted []string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " + strings.Join(accepted, ", "),
	}}
}
