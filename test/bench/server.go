// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/test/bench/worker"
	"github.com/refwatch/refwatch/test/bench/workload"
	"github.com/refwatch/refwatch/test/e2e"
)

const (
	// creators is how many secrets are created or updated at once.
	creators = 32
	// verified is how many secrets are updated and read again to see that what was measured also works.
	verified = 20
)

// noAudit switches off the log of every request, which the harness keeps for its tests.
const noAudit = "--audit-log-path="

// server is the control plane, and what is in it.
type server struct {
	cluster     *e2e.Cluster
	admin       kubernetes.Interface
	credentials worker.Credentials // of the same user, for workers
	version     string
	made        map[workload.Set]bool
}

func startServer(ctx context.Context, log io.Writer) (*server, error) {
	cluster, err := e2e.Start(ctx, e2e.Options{Log: log, APIServerArgs: []string{noAudit}})
	if err != nil {
		return nil, err
	}
	config := cluster.Admin()
	config.ContentType = "application/vnd.kubernetes.protobuf"
	s := &server{cluster: cluster, credentials: worker.CredentialsOf(config), made: map[workload.Set]bool{}}
	if s.admin, err = kubernetes.NewForConfig(config); err == nil {
		version, versionErr := s.admin.Discovery().ServerVersion()
		if err = versionErr; err == nil {
			s.version = version.GitVersion
			return s, nil
		}
	}
	_ = cluster.Stop()
	return nil, fmt.Errorf("asking the server for its version: %w", err)
}

// make creates the secrets of a set, unless they are there.
func (s *server) make(ctx context.Context, set workload.Set) error {
	if s.made[set] {
		return nil
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: set.Namespace}}
	_, err := s.admin.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating a namespace: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for _, name := range set.Names() {
		group.Go(func() error {
			_, err := s.admin.CoreV1().Secrets(set.Namespace).Create(ctx, set.Secret(name, 0), metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("creating secrets: %w", err)
	}
	s.made[set] = true
	return nil
}

// update makes secrets what the editions say.
func (s *server) update(ctx context.Context, set workload.Set, editions []worker.Edition) error {
	for _, edition := range editions {
		secret := set.Secret(edition.Name, edition.Edition)
		if _, err := s.admin.CoreV1().Secrets(set.Namespace).Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("updating %s: %w", edition.Name, err)
		}
	}
	return nil
}

// updateSteadily updates a secret every interval, and returns the newest editions.
func (s *server) updateSteadily(ctx context.Context, set workload.Set, duration, interval time.Duration, edition *int64) ([]worker.Edition, int, error) {
	newest := map[string]int64{}
	group, updateCtx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	count := 0
	for end := time.Now().Add(duration); time.Now().Before(end) && updateCtx.Err() == nil; count++ {
		<-ticker.C
		*edition++
		one := worker.Edition{Name: workload.Name(count * 37 % set.Count), Edition: *edition}
		newest[one.Name] = one.Edition
		group.Go(func() error { return s.update(updateCtx, set, []worker.Edition{one}) })
	}
	var editions []worker.Edition
	for name, edition := range newest {
		editions = append(editions, worker.Edition{Name: name, Edition: edition})
	}
	return editions, count, group.Wait()
}

// verify updates some secrets, any, and has the worker see that a Get tells.
func (s *server) verify(ctx context.Context, p *process, set workload.Set, edition *int64) error {
	var editions []worker.Edition
	for _, i := range rand.Perm(set.Count)[:min(verified, set.Count)] {
		*edition++
		editions = append(editions, worker.Edition{Name: workload.Name(i), Edition: *edition})
	}
	if err := s.update(ctx, set, editions); err != nil {
		return err
	}
	return do(ctx, p, worker.OpVerify, editions)
}

// answerInterval is the time between two attempts to get a secret from a server that is starting.
const answerInterval = 20 * time.Millisecond

// answers sends the time at which the server answers a request for a secret, whether there is one or not. It asks
// until then, or until ctx ends.
func (s *server) answers(ctx context.Context) <-chan time.Time {
	answered := make(chan time.Time, 1)
	go func() {
		_ = poll(ctx, answerInterval, recoveryTimeout, func(ctx context.Context) (bool, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			err := s.admin.CoreV1().RESTClient().Get().Namespace(metav1.NamespaceDefault).Resource("secrets").
				Name("none").MaxRetries(0).Do(ctx).Error()
			if err == nil || apierrors.IsNotFound(err) {
				answered <- time.Now()
				return true, nil
			}
			return false, nil
		})
	}()
	return answered
}

// metrics is what the server tells of itself.
type metrics struct {
	heap, resident, cpu float64 // bytes of heap and stacks, of the process, and seconds
	streams             int     // watches of secrets in a namespace
}

// collect has the server collect its garbage, as anybody may who may ask for a profile.
func (s *server) collect(ctx context.Context) error {
	_, err := s.admin.Discovery().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("gc", "1").DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("having the server collect its garbage: %w", err)
	}
	return nil
}

func (s *server) scrape(ctx context.Context) (metrics, error) {
	text, err := s.admin.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return metrics{}, fmt.Errorf("reading /metrics: %w", err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return metrics{}, fmt.Errorf("reading /metrics: %w", err)
	}
	sum := func(name string, counts func(map[string]string) bool) float64 {
		total := 0.0
		for _, sample := range families[name].GetMetric() {
			if counts(labels(sample)) {
				total += sample.GetGauge().GetValue() + sample.GetCounter().GetValue()
			}
		}
		return total
	}
	all := func(map[string]string) bool { return true }
	return metrics{
		heap:     sum("go_memstats_heap_alloc_bytes", all) + sum("go_memstats_stack_inuse_bytes", all),
		resident: sum("process_resident_memory_bytes", all),
		cpu:      sum("process_cpu_seconds_total", all),
		streams: int(sum("apiserver_longrunning_requests", func(labels map[string]string) bool {
			// The server's own watches are of the whole cluster.
			return labels["resource"] == "secrets" && labels["verb"] == "WATCH" && labels["scope"] != "cluster"
		})),
	}, nil
}

func labels(sample *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, label := range sample.GetLabel() {
		labels[label.GetName()] = label.GetValue()
	}
	return labels
}

// awaitStreams waits until the server has so many watches.
func (s *server) awaitStreams(ctx context.Context, want int) error {
	var last atomic.Int64
	err := poll(ctx, 250*time.Millisecond, 2*time.Minute, func(ctx context.Context) (bool, error) {
		now, err := s.scrape(ctx)
		last.Store(int64(now.streams))
		return now.streams == want, err
	})
	if err != nil {
		return fmt.Errorf("waiting for %d watches on the server, last seen %d: %w", want, last.Load(), err)
	}
	return nil
}

// poll asks until the answer is yes.
func poll(ctx context.Context, interval, timeout time.Duration, ask func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		if yes, err := ask(ctx); yes || err != nil {
			return err
		}
		if err := worker.Pause(ctx, interval); err != nil {
			return err
		}
	}
}
