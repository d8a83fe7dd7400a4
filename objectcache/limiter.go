// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/client-go/util/flowcontrol"
)

// ErrClientLimited is joined to [ErrNotSynced] when a context ended and the
// client has a rate limiter of its own: client-go's default lets five requests
// pass a second, and the first reads of many objects wait in line for it. A
// client made with manager.ClientFor, or of manager.ConfigFor, has none: the
// [Gate] bounds what is asked for at a time.
var ErrClientLimited = errors.New("use manager.ClientFor, or a config with QPS -1")

// limited returns an error that names the limit of the resource's own client, nil
// if it has none. That of a client which gives its REST client to nobody is not
// known.
func (r *Resource[T]) limited() error {
	if r.rest == nil {
		return nil
	}
	limiter := r.rest.Client.GetRateLimiter()
	if isNil(limiter) || reflect.TypeOf(limiter) == reflect.TypeOf(flowcontrol.NewFakeAlwaysRateLimiter()) {
		return nil
	}
	return fmt.Errorf("the client limits itself to %v requests a second: %w", limiter.QPS(), ErrClientLimited)
}
