// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// RESTResource is one kind of namespaced object as a REST client reaches it.
type RESTResource struct {
	// Client is that of the group and version, like
	// kubernetes.Interface.CoreV1().RESTClient(). Protobuf is preferred for kinds
	// that have it, unless the client was told what to accept.
	Client rest.Interface
	// Name is the resource's name in a path, like "secrets".
	Name string
	// NewObject and NewList return an empty object of the kind, and an empty
	// list of them. Their types need not be known to any scheme.
	NewObject, NewList func() runtime.Object
}

// FromREST makes the source of one object, selected by its name. RBAC's
// resourceNames and the Node authorizer admit list and watch with this very
// selector
// (kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources).
//
// Its streams are read and decoded in the goroutine that calls Next. Each
// request is sent once: a typed client sends one up to eleven times, a second or
// more apart, when the connection breaks or the answer carries Retry-After;
// meanwhile nobody would know of the failure.
func FromREST(resource *RESTResource, namespace, name string) Source {
	return &restSource{resource: resource, namespace: namespace, name: name}
}

func (*restSource) careful() {}

type restSource struct {
	resource        *RESTResource
	namespace, name string
}

func (s *restSource) request(options *metav1.ListOptions) *rest.Request {
	options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, s.name).String()
	return s.resource.Client.Get().Namespace(s.namespace).Resource(s.resource.Name).
		// The same for every group.
		SpecificallyVersionedParams(options, scheme.ParameterCodec, corev1.SchemeGroupVersion).
		MaxRetries(0)
}

func (s *restSource) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list := s.resource.NewList()
	result := s.request(&options).UseProtobufAsDefaultIfPreferred(isProtobuf(list)).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	err := result.Into(list)
	if status := apierrors.APIStatus(nil); err != nil && !errors.As(err, &status) {
		return nil, undecodable(err)
	}
	return list, err
}

func (s *restSource) Watch(ctx context.Context, options metav1.ListOptions) (Stream, error) {
	options.Watch = true
	request := s.request(&options)
	if isProtobuf(s.resource.NewObject()) {
		request.UseProtobufAsDefault()
	} else {
		request.SetHeader("Accept", runtime.ContentTypeJSON) // there is a client that prefers CBOR
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, err
	}
	return &restStream{body: body, newObject: s.resource.NewObject}, nil
}

// isProtobuf tells whether an object can be decoded from protobuf.
func isProtobuf(object runtime.Object) bool {
	_, ok := object.(interface{ Unmarshal([]byte) error })
	return ok
}
