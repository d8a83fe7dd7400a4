// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"io"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/redact"
)

// RESTResource describes one kind of object and the client that reaches it. It must not be copied
// or changed after its first use: it remembers what events of the kind look like.
type RESTResource struct {
	// Client is the client of the group and version. A source asks for protobuf if the type supports it,
	// unless the client's config sets AcceptContentTypes, else for JSON. An answer of another group and
	// version is cache.ErrMalformed.
	Client rest.Interface
	Name   string // of the resource in a path, like "secrets"
	// NewObject and NewList return an empty object of the kind, and an empty list of such objects. For
	// *metav1.PartialObjectMetadata the source asks for metadata only. An answer of another type is
	// cache.ErrMalformed, if client-go's scheme has the type.
	NewObject, NewList func() runtime.Object
	// Selector returns the label and the field selector that lists and watches in a namespace have beside
	// the name, in the syntax of metav1.ListOptions. [RESTResource.Get] ignores it. A request is authorized
	// for the name of its source, whatever the terms: see [RESTResource.Selects]. Nil selects all.
	Selector func(namespace string) (labels, fields string)
	// WithoutManagedFields lets streams drop managedFields before they decode an object, which
	// halves the work for a small one. They keep those in JSON, those of large objects, and all
	// until the kind is known. Lists keep all. Default: streams keep all.
	WithoutManagedFields bool

	kind      knownKind // of what streams deliver
	bookmarks bookmarks
}

// FromREST returns the source of one object, selected by its name. The namespace of an object of a
// cluster-scoped kind is empty. RBAC's resourceNames and the Node authorizer allow list and watch with this
// selector (kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources).
//
// Each request is sent once. A typed client sends a request up to eleven times, a second or more apart, if
// the connection breaks or the answer has a Retry-After header; a reflector would learn of the failure only
// then. An event or a list of more than 4 MiB, twice what kube-apiserver can store, is cache.ErrMalformed.
func FromREST(resource *RESTResource, namespace, name string) Source {
	return &restSource{resource: resource, namespace: namespace, name: name}
}

type restSource struct {
	resource        *RESTResource
	namespace, name string
	large           atomic.Uint64 // the mark of the object that was delivered last; 0 if it is not large
}

func (s *restSource) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, size, err := s.resource.list(ctx, s.namespace, s.name, options)
	if err != nil {
		return nil, err
	}
	s.rememberList(list, size)
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		s.shareNames(item)
		return nil
	})
	return list, nil
}

// Peek implements Resumable.
func (s *restSource) Peek(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, _, err := s.resource.list(ctx, s.namespace, s.name, options)
	return list, err
}

// shareNames makes an object of a Go type hold the names of the source in place of equal
// ones, so that a program with many objects keeps them once.
func (s *restSource) shareNames(object runtime.Object) {
	typed, ok := object.(metav1.ObjectMetaAccessor)
	if !ok {
		return
	}
	header, ok := typed.GetObjectMeta().(*metav1.ObjectMeta)
	if !ok {
		return
	}
	if header.Name == s.name {
		header.Name = s.name
	}
	if header.Namespace == s.namespace {
		header.Namespace = s.namespace
	}
}

// request returns a list or a watch of one object.
func (r *RESTResource) request(namespace, name string, options *metav1.ListOptions) *rest.Request {
	r.selectIn(namespace, name, options)
	// The same version for every group.
	return r.readRequest(namespace).SpecificallyVersionedParams(options, scheme.ParameterCodec, corev1.SchemeGroupVersion)
}

// readRequest returns a request that reads the resource, and is sent once.
func (r *RESTResource) readRequest(namespace string) *rest.Request {
	return r.Client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(r.Name).MaxRetries(0)
}

// list returns a list, and its size.
func (r *RESTResource) list(ctx context.Context, namespace, name string, options metav1.ListOptions) (list runtime.Object, size int, err error) {
	list = r.NewList()
	request := r.request(namespace, name, &options)
	accept(request, list, r.NewObject())
	body, kind, err := read(ctx, request)
	if err != nil {
		return nil, 0, err
	}
	list, err = r.decodeList(body, kind, list)
	return list, len(body), err
}

// errLongAnswer is returned for an answer that holds more than one object can have.
var errLongAnswer = redact.Errorf("%w: an answer of more than %d bytes", cache.ErrMalformed, largestFrame)

// read sends a request, and returns the body of the answer, and the type of one that is not an API server's. One of
// more than 4 MiB, without its compression, is not read further. [rest.Request.Do] reads any body whole, and
// logs it.
func read(ctx context.Context, request *rest.Request) (answer []byte, kind string, err error) {
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = body.Close() }()
	answer, err = io.ReadAll(io.LimitReader(arrivals{body, arrivalsOf(ctx)}, largestFrame+1))
	if err == nil && len(answer) > largestFrame {
		err = errLongAnswer
	}
	return answer, typeOf(body), err
}

func (s *restSource) Watch(ctx context.Context, options metav1.ListOptions) (Stream, error) {
	options.Watch = true
	request := s.resource.request(s.namespace, s.name, &options)
	object := s.resource.NewObject()
	accept(request, object, object)
	// Since Kubernetes 1.37 a server compresses a whole stream (WatchListCompression), and the
	// window of the decompression costs 50 KB for as long as the stream is open.
	request.SetHeader("Accept-Encoding", "identity")
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, err
	}
	stream := &restStream{body: body, source: s, arrived: arrivalsOf(ctx)}
	if kind := typeOf(body); kind != "" {
		return &foreignStream{restStream: stream, kind: kind}, nil
	}
	return stream, nil
}
