// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/examples/nodeagent/tmpfs"
	"github.com/refwatch/refwatch/examples/nodeagent/volume"
	"github.com/refwatch/refwatch/featuregates"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/reflector"
)

const (
	// workers is how many pods are synced at once. A sync reads memory and writes files; it never waits for
	// the server.
	workers = 8

	// A pod that failed is tried again after minRetry, then with doubled pauses up to maxRetry. A change of the pod or
	// of one of its objects is synced at once, and so is the first state of each object, absent or refused ones too.
	minRetry = time.Second
	maxRetry = 30 * time.Second
)

// Options configures an [Agent].
type Options struct {
	// Client is the client for the API server. Required. See [manager.ClientFor].
	Client kubernetes.Interface
	// NodeName is the node whose pods are watched. Required.
	NodeName string
	// RootDir is the folder for volumes, see package volume. Required. It is created if it does not exist.
	RootDir string
	// Tmpfs, if not nil, keeps secret, projected and downwardAPI volumes in memory, as kubelet does. Default: nil, all
	// volumes are in the file system of RootDir. Volumes that are in memory stay there.
	Tmpfs *tmpfs.Options
	// FeatureGate enables features of refwatch. Default: the defaults of package featuregates.
	FeatureGate featuregate.FeatureGate
}

// Agent writes the volumes of one node's pods. Create one with [New], then call Run once.
type Agent struct {
	rootDir    string
	node       string
	tmpfs      *tmpfs.Options
	client     kubernetes.Interface
	gate       *objectcache.Gate // of all streams
	reflector  *reflector.Reflector
	secrets    *manager.Manager[*corev1.Secret]
	configMaps *manager.Manager[*corev1.ConfigMap]
	status     *statuses

	// Set by Run before it starts goroutines.
	logger     logr.Logger
	tree       *volume.Tree
	tokens     *tokens
	queue      workqueue.TypedRateLimitingInterface[types.UID]
	podsOnDisk []types.UID // pods that had a folder when Run began

	mu   sync.Mutex
	pods map[types.UID]*corev1.Pod // bound to the node and not ended; nil before the first list
	// first holds the pods of the first list that keep the agent from being ready: see Ready.
	first map[types.UID]string
}

// New returns an agent, or an error for the first wrong option. It starts nothing: see [Agent.Run].
func New(options Options) (*Agent, error) {
	if options.Client == nil {
		return nil, errors.New("the client is missing")
	}
	if problems := validation.IsDNS1123Subdomain(options.NodeName); len(problems) > 0 {
		return nil, fmt.Errorf("node name %q is not valid: %s", options.NodeName, strings.Join(problems, "; "))
	}
	if options.RootDir == "" {
		return nil, errors.New("the root folder is missing")
	}
	gate := objectcache.NewGate(objectcache.GateOptions{Name: "server"})
	watch := featuregates.Apply(options.FeatureGate, objectcache.WatchOptions{Gate: gate})
	secrets, err := manager.NewSecrets(options.Client, watch)
	if err != nil {
		return nil, err
	}
	configMaps, err := manager.NewConfigMaps(options.Client, watch)
	if err != nil {
		return nil, err
	}
	a := &Agent{
		rootDir: options.RootDir, node: options.NodeName, tmpfs: options.Tmpfs, client: options.Client, gate: gate,
		secrets: secrets, configMaps: configMaps, status: newStatuses(),
	}
	store := &toolscache.UndeltaStore{Store: toolscache.NewStore(toolscache.MetaNamespaceKeyFunc), PushFunc: a.setPods}
	a.reflector = reflector.New(toolscache.NewListWatchFromClient(
		options.Client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll,
		fields.OneTermEqualSelector("spec.nodeName", options.NodeName),
	), store, reflector.Options{Name: "pods of node " + options.NodeName, Resource: "pods", Gate: gate})
	return a, nil
}

// Secrets returns the manager of the Secrets that the pods reference, for metrics and debug pages.
func (a *Agent) Secrets() *manager.Manager[*corev1.Secret] { return a.secrets }

// ConfigMaps returns the manager of the ConfigMaps that the pods reference.
func (a *Agent) ConfigMaps() *manager.Manager[*corev1.ConfigMap] { return a.configMaps }

// Gate returns the Gate of all streams.
func (a *Agent) Gate() *objectcache.Gate { return a.gate }

// Run watches the node's pods and writes their volumes until ctx ends. It returns when all its goroutines have ended.
// The files stay. Run fails if the root folder cannot be used; later errors are in the status and are tried again.
func (a *Agent) Run(ctx context.Context) (err error) {
	if a.tree, err = volume.Open(a.rootDir); err != nil {
		return err
	}
	if a.podsOnDisk, err = a.tree.Pods(); err != nil {
		return errors.Join(err, a.tree.Close())
	}
	a.logger = klog.FromContext(ctx)
	a.logger.Info("Starting to write the volumes of the node's pods", "node", a.node,
		"server", a.client.CoreV1().RESTClient().Get().URL().Host, "rootDir", a.rootDir, "tmpfs", a.tmpfs != nil)
	a.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](minRetry, maxRetry),
		workqueue.TypedRateLimitingQueueConfig[types.UID]{Name: "pods"}) // for its metrics
	a.tokens = newTokens(a.client, a.queue.Add)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.secrets.Run(ctx) })
	group.Go(func() error { return a.configMaps.Run(ctx) })
	group.Go(func() error { enqueueOwners(ctx, a.secrets, a.queue); return nil })
	group.Go(func() error { enqueueOwners(ctx, a.configMaps, a.queue); return nil })
	group.Go(func() error { a.reflector.Run(ctx); return nil })
	for range workers {
		group.Go(func() error { a.work(ctx); return nil })
	}
	for range tokenWorkers {
		group.Go(func() error { a.tokens.work(ctx); return nil })
	}
	group.Go(func() error {
		<-ctx.Done()
		a.queue.ShutDown() // ends the workers
		a.tokens.queue.ShutDown()
		return nil
	})
	return errors.Join(group.Wait(), a.tree.Close())
}

// enqueueOwners queues the pods that reference an object when its first state is known and when it changes. It queues
// those of absent and refused objects, too: an optional volume is written without its object, and the status of a pod
// gets the cause.
func enqueueOwners[T cache.Object](ctx context.Context, m *manager.Manager[T], queue workqueue.TypedInterface[types.UID]) {
	for _, owners := range m.Changes(ctx) {
		for _, owner := range owners {
			queue.Add(owner.UID)
		}
	}
}
