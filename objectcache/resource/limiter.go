// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/client-go/util/flowcontrol"
)

// Rate limiters of clients, which delay streams.

// ErrClientLimited is joined to ErrNotSynced of objectcache when the context of a Get ended
// and the client has a rate limiter of its own. client-go's default allows five
// requests a second, and the first reads of many objects wait for it. A client
// from manager.ClientFor, or of a config from manager.ConfigFor, has none: the
// Gate of a store bounds the requests.
var ErrClientLimited = errors.New("use the config that resource.ConfigFor returns, or one with QPS -1")

// rateLimitError returns an error with the rate limit of the client, and nil if it
// has none. A source of FromSource hides its limit.
func (r *Resource[T]) rateLimitError() error {
	if r.rest == nil {
		return nil
	}
	limiter := r.rest.Client.GetRateLimiter()
	if isNil(limiter) || reflect.TypeOf(limiter) == reflect.TypeOf(flowcontrol.NewFakeAlwaysRateLimiter()) {
		return nil
	}
	return fmt.Errorf("the client limits itself to %v requests a second: %w", limiter.QPS(), ErrClientLimited)
}
