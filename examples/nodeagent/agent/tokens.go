// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

const (
	// tokenWorkers is how many tokens are requested at once. Requests that hang take a worker for tokenTimeout, once
	// in maxTokenRetry each, so it takes more than 300 of them to hold up others.
	tokenWorkers = 32
	tokenTimeout = 5 * time.Second

	// A token that was refused is requested again after minTokenRetry, then twice that, and so on up to
	// maxTokenRetry. It is short at first, for the Node authorizer needs a moment to see a pod that was just bound.
	minTokenRetry = 100 * time.Millisecond
	maxTokenRetry = time.Minute

	// As kubelet does, a token is renewed after 80 % of its lifetime and no later than after maxTokenAge, up to
	// maxTokenJitter earlier, so that tokens that came together are not all renewed at once.
	maxTokenAge    = 24 * time.Hour
	maxTokenJitter = 10 * time.Second
)

// errTokenPending is the status of a volume whose token was requested a moment ago.
var errTokenPending = errors.New("the token has been requested")

// tokenKey is one token: what is requested, and for which pod.
type tokenKey struct {
	uid                     types.UID
	namespace, pod, account string
	audience                string // empty: the server's default
	seconds                 int64
}

// token is the last answer for a key.
type token struct {
	asked   time.Time // when the pod asked first
	value   string
	expires time.Time // by this machine's clock
	err     error     // of the last request, nil if it succeeded
}

// tokens requests the tokens of pods' service accounts, keeps them in memory and renews them. A sync never waits for
// one: it is requested by workers of its own, and the pod is synced when the answer is there.
type tokens struct {
	client kubernetes.Interface
	synced func(types.UID) // called when there is an answer for a pod
	queue  workqueue.TypedRateLimitingInterface[tokenKey]

	mu    sync.Mutex
	known map[tokenKey]token // of the pods that asked, until they are gone
}

func newTokens(client kubernetes.Interface, synced func(types.UID)) *tokens {
	return &tokens{
		client: client,
		synced: synced,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[tokenKey](minTokenRetry, maxTokenRetry)),
		known: map[tokenKey]token{},
	}
}

// get returns the token of a pod if it is in memory and has not expired, or else why it is not. The first call for a
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
	now, ok := t.known[key]
	switch {
	case !ok:
		t.known[key] = token{asked: time.Now()}
		t.queue.Add(key)
		return "", errTokenPending
	case time.Now().Before(now.expires):
		return now.value, nil
	case now.err == nil:
		return "", errTokenPending
	case apierrors.IsForbidden(now.err) && time.Since(now.asked) < patience:
		// A refusal is believed once it has lasted. %v, for until then it is none.
		return "", fmt.Errorf("%w: %v", errTokenPending, now.err) //nolint:errorlint // see above
	}
	return "", now.err
}

// forget drops the tokens of a pod that is gone.
func (t *tokens) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.known {
		if key.uid == uid {
			delete(t.known, key)
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

// renew requests one token, and puts it into the queue again for when it is to be renewed, or tried again.
func (t *tokens) renew(ctx context.Context, key tokenKey) {
	if _, ok := t.last(key); !ok {
		t.queue.Forget(key)
		return
	}
	asked := time.Now()
	value, lifetime, err := t.request(ctx, key)
	if ctx.Err() != nil {
		return
	}
	before, ok := t.note(key, value, asked.Add(lifetime), err)
	switch {
	case !ok:
		t.queue.Forget(key)
		return
	case err == nil:
		t.queue.Forget(key)
		t.queue.AddAfter(key, renewAfter(lifetime))
	default:
		t.queue.AddRateLimited(key)
		// While a token is good its volume reports nothing.
		if before.err == nil && before.value != "" {
			klog.FromContext(ctx).Error(err, "A service account token cannot be renewed; it stays until it expires and is tried again",
				"pod", klog.KRef(key.namespace, key.pod), "podUID", key.uid, "expires", before.expires)
		}
	}
	t.synced(key.uid)
}

// last returns the last answer for a key; false if its pod is gone.
func (t *tokens) last(key tokenKey) (token, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, ok := t.known[key]
	return last, ok
}

// note keeps an answer and returns the one before; false if the pod is gone. An error leaves the token as it was.
func (t *tokens) note(key tokenKey, value string, expires time.Time, err error) (before token, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, ok = t.known[key]
	if !ok {
		return before, false
	}
	after := before
	if after.err = err; err == nil {
		after.value, after.expires = value, expires
	}
	t.known[key] = after
	return before, true
}

// request requests a token and returns it with its lifetime. The answer is the one thing that this agent asks for
// which must not be logged, at any verbosity: client-go logs bodies, so the request has no logger.
func (t *tokens) request(ctx context.Context, key tokenKey) (value string, lifetime time.Duration, err error) {
	ctx, cancel := context.WithTimeout(klog.NewContext(ctx, logr.Discard()), tokenTimeout)
	defer cancel()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &key.seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: key.pod, UID: key.uid},
	}}
	if key.audience != "" {
		request.Spec.Audiences = []string{key.audience}
	}
	answer, err := t.client.CoreV1().ServiceAccounts(key.namespace).CreateToken(ctx, key.account, request, metav1.CreateOptions{})
	if err != nil {
		return "", 0, fmt.Errorf("service account %q: %w", key.namespace+"/"+key.account, safe(err))
	}
	// The lifetime and not the time of expiry, for the server's clock may differ from this machine's.
	lifetime = time.Duration(ptr.Deref(answer.Spec.ExpirationSeconds, 0)) * time.Second
	if answer.Status.Token == "" || lifetime <= 0 {
		return "", 0, fmt.Errorf("service account %q: the server answered without a token or its lifetime", key.namespace+"/"+key.account)
	}
	return answer.Status.Token, lifetime, nil
}

// safe returns err, or another in its place where it may quote the answer: a decoder's.
func safe(err error) error {
	var status apierrors.APIStatus
	var transport *url.Error
	if errors.As(err, &status) || errors.As(err, &transport) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	return errors.New("the answer cannot be read")
}

// renewAfter returns when a token of that lifetime is to be renewed.
func renewAfter(lifetime time.Duration) time.Duration {
	return min(lifetime/5*4, maxTokenAge) - rand.N(min(maxTokenJitter, lifetime/10))
}
