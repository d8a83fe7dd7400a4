// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/refwatch/refwatch/reflector"
)

// Client is a way to follow many objects from one node.
type Client struct {
	// Name says in tables what it is.
	Name string
	// node returns what follows one object of a node, until its context ends.
	node func() follow
}

// follow follows one object until ctx ends.
type follow func(ctx context.Context, source *source)

// Refwatch is reflectors that share one gate on each node, which lets so many
// open at once; 0 is the default.
func Refwatch(name string, opens int) Client {
	return Client{Name: name, node: func() follow {
		gate := reflector.NewGate(reflector.GateOptions{Opens: opens})
		return func(ctx context.Context, source *source) { reflect(ctx, source, gate) }
	}}
}

// Ungated is reflectors each with a gate, and so a back-off, of its own.
func Ungated() Client {
	return Client{Name: "no gate", node: func() follow {
		return func(ctx context.Context, source *source) { reflect(ctx, source, nil) }
	}}
}

func reflect(ctx context.Context, source *source, gate *reflector.Gate) {
	reflector.New(source, store{}, reflector.Options{Gate: gate, Resource: "secrets"}).Run(ctx)
}

// store takes everything: freshness is measured where the streams are.
type store struct{}

func (store) Add(any) error               { return nil }
func (store) Update(any) error            { return nil }
func (store) Delete(any) error            { return nil }
func (store) Replace([]any, string) error { return nil }
func (store) Resync() error               { return nil }

// Kubelet retries as kubelet's manager of watches does, which has client-go's
// reflector for each object: 0.8 s doubling to 30 s, up to twice as long by
// jitter, as at first after two minutes without. A stream that was lost is asked
// for at once. A 429 is answered within the request, up to ten times, by waiting
// for its Retry-After. All requests of a node share qps a second, with bursts of
// twice as many; 0 is no limit, 50 kubelet's default.
func Kubelet(name string, qps float32) Client {
	return Client{Name: name, node: func() follow {
		limit := flowcontrol.NewFakeAlwaysRateLimiter()
		if qps > 0 {
			limit = flowcontrol.NewTokenBucketRateLimiter(qps, int(2*qps))
		}
		return func(ctx context.Context, source *source) {
			delay := wait.Backoff{Duration: 800 * time.Millisecond, Cap: 30 * time.Second, Steps: 38, Factor: 2, Jitter: 1}.
				DelayWithReset(clock.RealClock{}, 2*time.Minute)
			for ctx.Err() == nil {
				if err := watchOnce(ctx, source, limit); err != nil {
					_ = pause(ctx, nil, delay()) // the loop looks at ctx
				}
			}
		}
	}}
}

// requestRetries is how often client-go sends a request again by itself.
const requestRetries = 10

// watchOnce opens a stream and reads it to its end. The error is that of the
// open.
func watchOnce(ctx context.Context, source *source, limit flowcontrol.RateLimiter) error {
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
		if err := pause(ctx, nil, time.Duration(seconds)*time.Second); err != nil {
			return err
		}
	}
}
