// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/refwatch/refwatch/objectcache/resource"
)

const (
	// tokenWorkers is how many tokens are requested at once. A request that hangs occupies a worker for tokenTimeout,
	// once per maxTokenRetry: more than 300 such requests would delay others.
	tokenWorkers = 32
	tokenTimeout = 5 * time.Second

	// After an error a token is requested again after minTokenRetry, then with doubled pauses up to maxTokenRetry.
	// minTokenRetry is short because the Node authorizer sees a pod a moment after it was bound.
	minTokenRetry = 100 * time.Millisecond
	maxTokenRetry = time.Minute

	// As in kubelet, a token is renewed after 80 % of its lifetime, at most maxTokenAge. A jitter of up to
	// maxTokenJitter makes it earlier, so that tokens of the same age are not all renewed at once.
	maxTokenAge    = 24 * time.Hour
	maxTokenJitter = 10 * time.Second

	// tokenCheck is after how long a worker looks again whether a token has to be renewed. Timers stand still while the
	// machine is suspended: without that, a token would be renewed late by the time of the sleep.
	tokenCheck = time.Minute
)

// errTokenPending is the error of a volume whose token was requested and has not arrived yet.
var errTokenPending = errors.New("the token was requested and has not arrived yet")

// tokenKey identifies a token by its request and its pod.
type tokenKey struct {
	uid                     types.UID
	namespace, pod, account string
	audience                string // empty: the server's default
	seconds                 int64
}

// token is the last answer for a key.
type token struct {
	first    time.Time // when get was first called for the key
	value    string
	asked    moment        // when value was requested
	lifetime time.Duration // of value
	renew    time.Duration // the age at which value is renewed
	err      error         // of the last request, nil if it succeeded
}

// moment is a time by both clocks. The monotonic one does not change when the wall clock is set. The wall clock goes on
// while the machine is suspended.
type moment struct{ monotonic, wall time.Time }

// age returns how old m is by the clock that says more: it is better to renew a token early than late.
func (m moment) age(now moment) time.Duration {
	return max(now.monotonic.Sub(m.monotonic), now.wall.Sub(m.wall))
}

// tokens requests the tokens of pods' service accounts, keeps them in memory and renews them. A sync never waits for a
// token: workers of tokens request it, and the pod is synced when the answer arrives.
type tokens struct {
	client   kubernetes.Interface
	answered func(types.UID) // called with the pod's UID after each answer
	queue    workqueue.TypedRateLimitingInterface[tokenKey]
	now      func() moment // for tests

	mu      sync.Mutex
	answers map[tokenKey]token // until the pod is deleted
}

func newTokens(client kubernetes.Interface, answered func(types.UID)) *tokens {
	return &tokens{
		client:   client,
		answered: answered,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[tokenKey](minTokenRetry, maxTokenRetry),
			workqueue.TypedRateLimitingQueueConfig[tokenKey]{Name: "tokens"}), // for its metrics
		now: func() moment {
			now := time.Now()
			return moment{now, now.Round(0)}
		},
		answers: map[tokenKey]token{},
	}
}

// get returns the token of a pod if it is in memory and has not expired, and an error otherwise. The first call for a
// token requests it.
func (t *tokens) get(pod *corev1.Pod, projection *corev1.ServiceAccountTokenProjection) (string, error) {
	key := tokenKey{
		uid: pod.UID, namespace: pod.Namespace, pod: pod.Name,
		account:  cmp.Or(pod.Spec.ServiceAccountName, "default"),
		audience: projection.Audience,
		seconds:  ptr.Deref(projection.ExpirationSeconds, int64(time.Hour/time.Second)),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	last, ok := t.answers[key]
	switch {
	case !ok:
		t.answers[key] = token{first: time.Now()}
		t.queue.Add(key)
		return "", errTokenPending
	case last.asked.age(t.now()) < last.lifetime:
		return last.value, nil
	case last.err == nil:
		return "", errTokenPending
	case apierrors.IsForbidden(last.err) && time.Since(last.first) < gracePeriod:
		// The authorizer may not have seen the pod yet. %v, so that callers do not take it for Forbidden.
		return "", fmt.Errorf("%w: %v", errTokenPending, last.err) //nolint:errorlint // see above
	}
	return "", last.err
}

// forget drops the tokens of a pod.
func (t *tokens) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.answers {
		if key.uid == uid {
			delete(t.answers, key)
		}
	}
}

// work requests tokens until the queue is shut down.
func (t *tokens) work(ctx context.Context) {
	for {
		key, shutdown := t.queue.Get()
		if shutdown {
			return
		}
		t.renew(ctx, key)
		t.queue.Done(key)
	}
}

// renew requests one token if that is due, and queues it again for its renewal or the next try.
func (t *tokens) renew(ctx context.Context, key tokenKey) {
	before, ok := t.last(key)
	if !ok {
		t.queue.Forget(key)
		return
	}
	began := t.now()
	if rest := before.renew - before.asked.age(began); rest > 0 {
		t.queue.AddAfter(key, min(rest, tokenCheck))
		return
	}
	value, lifetime, err := t.request(ctx, key)
	if ctx.Err() != nil {
		return
	}
	after := before
	if after.err = err; err == nil {
		after.value, after.asked, after.lifetime, after.renew = value, began, lifetime, renewAfter(lifetime)
	}
	if !t.store(key, after) {
		t.queue.Forget(key)
		return
	}
	if err == nil {
		t.queue.Forget(key)
		t.queue.AddAfter(key, min(after.renew, tokenCheck))
	} else {
		t.queue.AddRateLimited(key)
		// The status of the volume has no error until the token expires.
		if before.err == nil && before.value != "" {
			klog.FromContext(ctx).Error(err, "Cannot renew a service account token; will retry",
				"pod", klog.KRef(key.namespace, key.pod), "podUID", key.uid, "expires", before.asked.wall.Add(before.lifetime))
		}
	}
	t.answered(key.uid)
}

// last returns the last answer for a key; false if the pod was deleted.
func (t *tokens) last(key tokenKey) (token, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, ok := t.answers[key]
	return last, ok
}

// store stores an answer. It returns false if the pod was deleted.
func (t *tokens) store(key tokenKey, answer token) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.answers[key]; !ok {
		return false
	}
	t.answers[key] = answer
	return true
}

// request requests a token and returns it with its lifetime. Logs and errors quote nothing of the answer, which could
// hold the token, except the message of an API status.
func (t *tokens) request(ctx context.Context, key tokenKey) (value string, lifetime time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &key.seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: key.pod, UID: key.uid},
	}}
	if key.audience != "" {
		request.Spec.Audiences = []string{key.audience}
	}
	answer, err := resource.Redacted(ctx, func(ctx context.Context) (*authenticationv1.TokenRequest, error) {
		return t.client.CoreV1().ServiceAccounts(key.namespace).CreateToken(ctx, key.account, request, metav1.CreateOptions{})
	})
	if err != nil {
		return "", 0, fmt.Errorf("service account %q: %w", key.namespace+"/"+key.account, err)
	}
	// Use the lifetime, not the time of expiry: the server's clock may differ from this machine's.
	lifetime = time.Duration(ptr.Deref(answer.Spec.ExpirationSeconds, 0)) * time.Second
	if answer.Status.Token == "" || lifetime <= 0 {
		return "", 0, fmt.Errorf("service account %q: the answer has no token or no lifetime", key.namespace+"/"+key.account)
	}
	return answer.Status.Token, lifetime, nil
}

// renewAfter returns how long after its request to renew a token of that lifetime.
func renewAfter(lifetime time.Duration) time.Duration {
	return min(lifetime/5*4, maxTokenAge) - rand.N(min(maxTokenJitter, lifetime/10))
}
