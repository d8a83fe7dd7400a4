// SPDX-License-Identifier: Apache-2.0

package scale_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/e2e"
)

const (
	namespace     = metav1.NamespaceDefault
	secretsPerPod = 10

	// getTimeout bounds all Gets, which start at the same time.
	getTimeout = time.Minute
	// timeout bounds each other wait.
	timeout = 2 * time.Minute

	// streamsPerConnection is kube-apiserver's default of --http2-max-streams-per-connection.
	streamsPerConnection = 100
	// opens is how many streams a Gate opens at the same time.
	opens = 32
	// goroutinesPerObject is for the connections, which have one each, and for the program's own.
	goroutinesPerObject = 0.1
)

// TestKubeletScenario: every referenced secret can be got in time, connections and goroutines are bounded, and nothing
// is left on either side when the references are removed. Times and memory are logged and not checked.
func TestKubeletScenario(t *testing.T) {
	for _, size := range []int{1_000, 10_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			if size > 1_000 && testing.Short() {
				t.Skip("takes a minute and some GiB of memory")
			}
			raiseFileLimit(t)
			r := newRig(t)
			r.createSecrets(size)
			r.scenario(size)
		})
	}
}

// raiseFileLimit raises the limit of open files of this process and its children to the maximum. While all streams are
// being opened, the transport has far more than one connection for each hundred streams.
func raiseFileLimit(t *testing.T) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
}

// rig is a control plane, an administrator's client, and the configuration of the manager under test.
type rig struct {
	*testing.T

	cluster     *e2e.Cluster
	admin       kubernetes.Interface
	config      *rest.Config
	connections *connections // of config
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, cluster: e2e.New(t, e2e.Options{}), connections: &connections{open: map[*connection]struct{}{}}}
	r.admin = e2e.Client(t, r.cluster.Admin())
	r.config = r.cluster.Admin()
	r.config.Dial = r.connections.dial
	return r
}

func nameOf(i int) string  { return fmt.Sprint("secret-", i) }
func valueOf(i int) string { return fmt.Sprint("value ", i) }

func (r *rig) createSecrets(count int) {
	r.Helper()
	began := time.Now()
	group, ctx := errgroup.WithContext(r.Context())
	group.SetLimit(32)
	for i := range count {
		group.Go(func() error {
			_, err := r.admin.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: nameOf(i)},
				Data:       map[string][]byte{"value": []byte(valueOf(i))},
			}, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		r.Fatal(err)
	}
	r.log(count, "secrets created", began)
}

// podsOf returns pods that together reference that many secrets.
func podsOf(secrets int) []*corev1.Pod {
	var pods []*corev1.Pod
	for first := 0; first < secrets; first += secretsPerPod {
		name := fmt.Sprint("pod-", len(pods))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
		for i := first; i < min(first+secretsPerPod, secrets); i++ {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: nameOf(i), VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: nameOf(i)},
			}})
		}
		pods = append(pods, pod)
	}
	return pods
}

// scenario registers pods, gets all their secrets at the same time, and unregisters the pods.
func (r *rig) scenario(size int) {
	r.Helper()
	r.awaitStreams(0)
	before, goroutines := goleak.IgnoreCurrent(), runtime.NumGoroutine()
	client, err := manager.ClientFor(r.config)
	if err != nil {
		r.Fatal(err)
	}
	secrets, err := manager.NewSecrets(client, objectcache.WatchOptions{})
	if err != nil {
		r.Fatal(err)
	}
	stop := e2e.Run(r, secrets.Run)

	began := time.Now()
	pods := podsOf(size)
	for _, pod := range pods {
		secrets.RegisterPod(pod)
	}
	r.log(len(pods), "pods registered", began)
	r.getAll(secrets, size)
	r.awaitStreams(size)
	r.checkResources(size, goroutines)

	began = time.Now()
	for _, pod := range pods {
		secrets.UnregisterPod(pod)
	}
	r.awaitStreams(0)
	r.log(size, "streams ended", began)

	stop()
	r.connections.close()
	// A request for the server's metrics may leave a connection of the administrator, which ends with the server.
	goleak.VerifyNone(r, before, goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"))
}

// getAll gets all secrets at the same time. No Get may fail.
func (r *rig) getAll(secrets *manager.Manager[*corev1.Secret], size int) {
	r.Helper()
	began := time.Now()
	took := make([]time.Duration, size)
	ctx, cancel := context.WithTimeout(r.Context(), getTimeout)
	defer cancel()
	var group errgroup.Group
	var failed atomic.Int64
	for i := range size {
		group.Go(func() error {
			secret, err := secrets.Get(ctx, namespace, nameOf(i))
			took[i] = time.Since(began)
			if err == nil && string(secret.Data["value"]) != valueOf(i) {
				err = fmt.Errorf("value of %s: got %q, want %q", nameOf(i), secret.Data["value"], valueOf(i))
			}
			if err != nil {
				failed.Add(1)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		r.Errorf("failed Gets: got %d of %d, want none; the first: %v", failed.Load(), size, err)
	}
	slices.Sort(took)
	r.Logf("%6d Gets: half done after %v, 99 %% after %v, all after %v", size,
		took[size/2].Round(time.Millisecond), took[size*99/100].Round(time.Millisecond), took[size-1].Round(time.Millisecond))
}

// awaitStreams waits until that many watches of single secrets are open on the server.
func (r *rig) awaitStreams(want int) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	err := e2e.Poll(ctx, func(ctx context.Context) error {
		got, err := r.cluster.OpenWatches(ctx, "secrets")
		if err == nil && got != want {
			err = fmt.Errorf("streams on the server: got %d, want %d", got, want)
		}
		return err
	})
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) log(count int, what string, began time.Time) {
	r.Logf("%6d %s in %v", count, what, time.Since(began).Round(time.Millisecond))
}

// checkResources checks connections and goroutines with all streams open. before is the number of goroutines before.
func (r *rig) checkResources(size, before int) {
	r.Helper()
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	goroutines := float64(runtime.NumGoroutine()-before) / float64(size)
	open, most, opened := r.connections.count()
	r.Logf("%6d connections, %d at most, %d opened in total; %.3f goroutines per object, %d MiB of heap, %d MiB of stacks",
		open, most, opened, goroutines, memory.HeapAlloc>>20, memory.StackInuse>>20)
	if limit := maxConnections(size); most > limit {
		r.Errorf("connections: got %d at the same time, want at most %d", most, limit)
	}
	if goroutines > goroutinesPerObject {
		r.Errorf("goroutines per object: got %.3f, want at most %v", goroutines, goroutinesPerObject)
	}
}

// maxConnections returns how many connections may be open at the same time for that many streams: those that the
// streams fill, and those that are being dialed. When all connections are full, each stream that is being opened dials
// one. The first that is ready takes all these streams, and net/http closes the others.
func maxConnections(streams int) int {
	return (streams+streamsPerConnection-1)/streamsPerConnection + opens
}
