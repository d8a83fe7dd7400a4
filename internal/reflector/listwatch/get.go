// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/internal/redact"
)

// Get reads one object by its name, with a GET that is sent once. The API server
// answers it with the newest state. An answer of more than 4 MiB is cache.ErrMalformed.
func (r *RESTResource) Get(ctx context.Context, namespace, name string) (runtime.Object, error) {
	object := r.NewObject()
	request := r.readRequest(namespace).Name(name)
	accept(request, object, object)
	body, kind, err := read(ctx, request)
	if err != nil {
		return nil, err
	}
	return r.decodeAnswer(body, kind, object)
}

// Redacted is that of package resource.
func Redacted[T runtime.Object](ctx context.Context, get func(context.Context) (T, error)) (object T, err error) {
	defer redact.Panic(&err)
	object, err = get(redact.Context(ctx))
	return object, redact.Error(answered(err))
}
