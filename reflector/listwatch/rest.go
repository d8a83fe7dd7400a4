// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/reflector/internal/redact"
)

// RESTResource describes one kind of object and the client that reaches it.
type RESTResource struct {
	// Client is the client of the group and version, like
	// kubernetes.Interface.CoreV1().RESTClient(). A source asks for protobuf if the
	// type supports it, unless the client's config sets AcceptContentTypes, and for JSON
	// if it does not.
	Client rest.Interface
	// Name is the name of the resource in a path, like "secrets".
	Name string
	// NewObject and NewList return an empty object of the kind, and an empty list of
	// such objects. The types need not be registered in a scheme.
	// *unstructured.Unstructured holds an object of any kind. For
	// *metav1.PartialObjectMetadata the source asks for metadata only.
	NewObject, NewList func() runtime.Object
}

// FromREST returns the source of one object, selected by its name. The namespace of an
// object of a cluster-scoped kind is empty. RBAC's resourceNames and the Node authorizer
// allow list and watch with this selector
// (kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources).
//
// The goroutine that calls Next reads and decodes the stream. Each request is sent
// once. A typed client sends a request up to eleven times, a second or more apart, if
// the connection breaks or the answer has a Retry-After header; a reflector would
// learn of the failure only then.
func FromREST(resource *RESTResource, namespace, name string) Source {
	return &restSource{resource: resource, namespace: namespace, name: name}
}

type restSource struct {
	resource        *RESTResource
	namespace, name string
}

func (s *restSource) request(options *metav1.ListOptions) *rest.Request {
	options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, s.name).String()
	return s.resource.Client.Get().NamespaceIfScoped(s.namespace, s.namespace != "").Resource(s.resource.Name).
		// The same for every group.
		SpecificallyVersionedParams(options, scheme.ParameterCodec, corev1.SchemeGroupVersion).
		MaxRetries(0)
}

func (s *restSource) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list := s.resource.NewList()
	request := s.request(&options)
	accept(request, list, s.resource.NewObject())
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, redact.Loggable(err)
	}
	body, err := result.Raw()
	if err != nil {
		return nil, redact.Loggable(err)
	}
	return decodeList(body, list)
}

func (s *restSource) Watch(ctx context.Context, options metav1.ListOptions) (Stream, error) {
	options.Watch = true
	request := s.request(&options)
	object := s.resource.NewObject()
	accept(request, object, object)
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, redact.Loggable(err)
	}
	return &restStream{body: body, newObject: s.resource.NewObject}, nil
}
