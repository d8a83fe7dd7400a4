// SPDX-License-Identifier: Apache-2.0

package patterns_test

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/manager/controllerruntime"
)

// pattern is how an operator uses Secrets.
type pattern struct {
	name string

	cache     controllerruntime.CacheOptions
	stock     cache.Options
	client    client.CacheOptions
	newClient client.NewClientFunc
	wrap      func(cache.NewCacheFunc) cache.NewCacheFunc // the operator's own NewCache. Default: it has none
	prepare   func(*process) error                        // is called before the controller is built

	watch func(*process, *builder.Builder) *builder.Builder
	read  action // returns a Secret as a reconcile reads it
	act   action // is what a reconcile does with a Secret; it returns what it has read. Default: read
	// ofSecrets is set if reconciles are of Secrets, and not of custom resources.
	ofSecrets bool
	// poll is after how long reconciles are repeated, for those that events do not call.
	poll time.Duration

	// silent is set if handlers get no events, as the guide says. Then nothing is promised of reconciles.
	silent bool
	// live is set if reads pass the stock cache or no cache, whose errors are the server's.
	live bool
	// held is set if the stock cache holds Secrets, or their metadata.
	held bool
	// streams is how many an object may have by its name. Default: 1.
	streams int
	// writes is set if reconciles write.
	writes bool
	// without are faults under which the guide promises nothing.
	without []string
}

// readsStock reports whether reads are of the stock cache, or of its set.
func (p *pattern) readsStock() bool {
	return p.held && (len(p.cache.Selected) > 0 || p.live && !p.cache.LiveList)
}

func (p *pattern) newCache() cache.NewCacheFunc {
	newCache := controllerruntime.NewCache(p.cache)
	if p.wrap != nil {
		return p.wrap(newCache)
	}
	return newCache
}

var (
	secret   = &corev1.Secret{}
	selected = controllerruntime.CacheOptions{Selected: []client.Object{secret}}
	ofModel  = labels.SelectorFromSet(labels.Set{"app": "model"}) // all Secrets have this label
	even     = labels.SelectorFromSet(labels.Set{"parity": "0"})  // Secrets get and lose this one
	opaque   = fields.OneTermEqualSelector("type", string(corev1.SecretTypeOpaque))

	readOwn = controllerruntime.NewClient
	polled  = 5 * time.Second

	notCached = client.CacheOptions{DisableFor: []client.Object{secret}}
	untyped   = client.CacheOptions{Unstructured: true}
)

// of returns options of the stock cache for Secrets.
func of(o cache.ByObject) cache.Options {
	return cache.Options{ByObject: map[client.Object]cache.ByObject{secret: o}}
}

func namespaces(names ...string) cache.ByObject {
	o := cache.ByObject{Namespaces: map[string]cache.Config{}}
	for _, name := range names {
		o.Namespaces[name] = cache.Config{}
	}
	return o
}

// patterns are those of the table in docs/guides/controllers.md#does-my-operator-fit, with what it needs, and some
// without that: their handlers are silent.
var patterns = []pattern{
	{name: "get", watch: nothing, read: get, poll: polled},
	{name: "watch and get", watch: watches(), read: get},
	{name: "get, create what is absent", watch: watches(), read: get, act: create, writes: true},
	{name: "create without a get", watch: watches(), read: getLive, act: createBlindly, writes: true, silent: true, live: true},
	{name: "apply without a get", watch: watches(), read: getLive, act: applyBlindly, writes: true, silent: true, live: true},
	{name: "apply and get", watch: watches(), read: get, act: apply, newClient: readOwn, writes: true},
	{name: "for, selected", cache: selected, stock: of(cache.ByObject{Label: ofModel}), watch: forSecrets, read: get, ofSecrets: true, held: true},
	{name: "for, stock", cache: others, watch: forSecrets, read: get, ofSecrets: true, live: true, held: true},
	{name: "list by label, selected", cache: selected, stock: of(cache.ByObject{Label: ofModel}), watch: watches(), read: list, live: true, held: true},
	{name: "label, selected", cache: selected, stock: of(cache.ByObject{Label: even}), watch: watches(), read: get, poll: polled, held: true},
	{name: "label", stock: of(cache.ByObject{Label: ofModel}), watch: watches(), read: get},
	{name: "field", stock: of(cache.ByObject{Field: opaque}), watch: watches(), read: get},
	{name: "field, selected", cache: selected, stock: of(cache.ByObject{Field: opaque}), watch: watches(), read: get, held: true},
	{name: "namespaces", stock: of(namespaces("ns-0", "ns-1")), watch: watches(), read: get},
	{name: "namespaces, selected", cache: selected, stock: of(namespaces("ns-0")), watch: watches(), read: get, poll: polled, held: true},
	{name: "list, live", cache: controllerruntime.CacheOptions{LiveList: true}, watch: nothing, read: list, poll: polled, live: true, held: true},
	{name: "index, selected", cache: selected, stock: of(cache.ByObject{Label: ofModel}), prepare: indexSecrets, watch: watches(), read: listByIndex, live: true, held: true},
	{name: "only metadata and get", watch: watches(builder.OnlyMetadata), read: get, streams: 2},
	{name: "only metadata, stock", cache: controllerruntime.CacheOptions{StockMetadata: true}, watch: watches(builder.OnlyMetadata), read: get, newClient: readOwn, held: true},
	{name: "disabled", client: notCached, watch: watches(), read: get, silent: true, live: true},
	{name: "disabled, only metadata", client: notCached, watch: watches(builder.OnlyMetadata), read: get, silent: true, live: true},
	{name: "API reader", watch: watches(), read: getLive, silent: true, live: true},
	{name: "API reader replaced", watch: watches(), read: get, newClient: readOwn},
	{name: "unstructured, live", watch: watches(), read: getUnstructured, silent: true, live: true},
	{name: "unstructured", client: untyped, watch: watches(), read: getUnstructured, streams: 2, without: otherKinds},
	{name: "read own writes", watch: watches(), read: get, act: update, newClient: readOwn, writes: true, without: restores},
	{name: "own NewCache", wrap: own, watch: watches(), read: get},
}

// others leaves Secrets to the stock cache.
var others = controllerruntime.CacheOptions{For: []client.Object{&corev1.Service{}}}

// restores are the faults that restore a backup.
var restores = []string{
	"rollback", "rollback-to-the-same-versions", "rollback-keeps-streams", "one-server-lags-and-rollback", "one-server-hangs-and-rollback",
}

// otherKinds are the faults that an object without a Go type does not show: see SECURITY.md.
var otherKinds = []string{"other-type", "other-type-in-bookmarks", "other-type-of-list"}

// survived are the faults that the stock cache and live reads survive.
var survived = []string{
	"connection-refused", "connections-cut", "connections-ended", "streams-closed", "streams-closed-again-and-again", "goaway",
	"unavailable", "etcd-down", "etcd-down-streams-closed", "gateway-timeout", "throttled", "rights-revoked", "watch-refused",
	"forbidden-at-first", "objects-forbidden", "objects-unreadable", "objects-hang", "slow-server", "compaction", "expired-in-stream",
	"error-in-stream", "certificate-rotated", "dials-hang", "half-open", "token-expired", "token-expired-streams-closed",
}

// allows reports whether a fault may be injected.
func (p *pattern) allows(fault string) bool {
	switch {
	case slices.Contains(p.without, fault):
		return false
	case strings.Contains(fault, "throttled") && (p.live || p.writes || p.streams > 1):
		return false // live reads, writes and each of two streams wait for their own Retry-After, whatever others got
	}
	return !p.live && !p.held || slices.Contains(survived, fault)
}
