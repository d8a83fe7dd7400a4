// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/refwatch/refwatch/internal/reflector"
)

// Client is a way to watch many objects from one node.
type Client struct {
	Name string
	// node returns the function of a node that watches one object until ctx ends.
	node func() func(ctx context.Context, source *source)
}

// Refwatch has one gate on each node, with that many opens at a time; 0 is the gate's default.
func Refwatch(name string, opens int) Client {
	return Client{name, func() func(context.Context, *source) {
		gate := reflector.NewGate(reflector.GateOptions{Opens: opens})
		return func(ctx context.Context, source *source) { reflect(ctx, source, gate) }
	}}
}

// Ungated has a gate, and so a back-off, for each reflector.
func Ungated() Client {
	return Client{"no gate", func() func(context.Context, *source) {
		return func(ctx context.Context, source *source) { reflect(ctx, source, nil) }
	}}
}

func reflect(ctx context.Context, source *source, gate *reflector.Gate) {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	reflector.New(source, store, reflector.Options{Gate: gate, Resource: "secrets"}).Run(ctx)
}

// Kubelet retries as kubelet's manager does, which has one client-go reflector for each object. Its back-off begins at
// 0.8 s and doubles to 30 s, with jitter of up to twice as long. After two minutes without a retry it begins again. A
// stream that ended is opened again at once. A 429 is retried within the request, up to ten times, after its
// Retry-After. All requests of a node share qps requests a second, with bursts of twice as many; 0 is no limit, 50 is
// kubelet's default.
func Kubelet(name string, qps float32) Client {
	return Client{name, func() func(context.Context, *source) {
		limit := flowcontrol.NewFakeAlwaysRateLimiter()
		if qps > 0 {
			limit = flowcontrol.NewTokenBucketRateLimiter(qps, int(2*qps))
		}
		return func(ctx context.Context, source *source) {
			delay := wait.Backoff{Duration: 800 * time.Millisecond, Cap: 30 * time.Second, Steps: 38, Factor: 2, Jitter: 1}.
				DelayWithReset(clock.RealClock{}, 2*time.Minute)
			for ctx.Err() == nil {
				if err := watchOnce(ctx, source, limit); err != nil {
					_ = pause(ctx, delay()) // the loop looks at ctx
				}
			}
		}
	}}
}

// watchOnce opens a stream and reads it to its end. It returns the error of the open.
func watchOnce(ctx context.Context, source *source, limit flowcontrol.RateLimiter) error {
	const requestRetries = 10 // client-go's
	for retries := 0; ; retries++ {
		if err := limit.Wait(ctx); err != nil {
			return err
		}
		stream, err := source.Watch(ctx, metav1.ListOptions{})
		if err == nil {
			for err == nil {
				_, err = stream.Next()
			}
			return stream.Close()
		}
		seconds, asked := apierrors.SuggestsClientDelay(err)
		if !asked || retries == requestRetries {
			return err
		}
		if err := pause(ctx, time.Duration(seconds)*time.Second); err != nil {
			return err
		}
	}
}
