// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/test/bench/contender"
	"github.com/refwatch/refwatch/test/bench/results"
	"github.com/refwatch/refwatch/test/e2e"
)

const (
	// creators is how many Secrets are created at a time.
	creators = 32
	// noAudit turns off the harness's log of every request.
	noAudit = "--audit-log-path="
	// logTail is how many bytes of a worker's log its error has.
	logTail = 4096
)

// bench is one run. It starts the control plane, and a worker for each measurement.
type bench struct {
	options
	stdout, stderr io.Writer

	cluster    *e2e.Cluster // started at its first use
	kubernetes string       // its version
	made       map[set]bool // Secrets in it
}

// run measures the scenarios and saves the results after each.
func (b *bench) run(ctx context.Context) (err error) {
	file := filepath.Join(b.out, resultsFile)
	saved, err := results.Load(file)
	if err != nil {
		return err
	}
	b.kubernetes = saved.Environment.Kubernetes
	defer func() { err = errors.Join(err, b.stopCluster()) }()
	for _, scenario := range b.scenarios {
		rounds, err := b.measure(ctx, scenario)
		if err != nil {
			return err
		}
		saved.Environment = results.Environment{
			Date: time.Now().UTC().Format(time.RFC3339), CPUs: runtime.NumCPU(),
			Platform: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Kubernetes: b.kubernetes,
		}
		names := saved.Add(scenario.name, rounds)
		if err := errors.Join(saved.Save(file), saved.Plot(b.out)); err != nil {
			return err
		}
		for _, name := range names {
			fmt.Fprintln(b.stdout, saved.Line(name))
		}
	}
	return nil
}

// roundsOf returns how many rounds a scenario is measured in.
func (b *bench) roundsOf(s scenario) int {
	if s.rounds > 0 {
		return min(b.rounds, s.rounds)
	}
	return b.rounds
}

// measure runs the rounds of a scenario. In each round it measures all contenders: A B C A B C.
func (b *bench) measure(ctx context.Context, s scenario) (map[string][]results.Round, error) {
	rounds := map[string][]results.Round{} // by contender
	sizes := b.sizes
	switch {
	case s.sizes != nil:
		sizes = s.sizes
	case !s.allSizes:
		sizes = sizes[len(sizes)-1:]
	}
	for _, size := range sizes {
		j := job{Scenario: s.name, Set: set{Name: "all", Count: size, Bytes: s.bytes}, Samples: b.samples, Calls: b.calls, Profiles: b.profiles}
		j.Outage, j.Latency, j.Period = min(s.outage, b.maxOutage), min(s.latency, b.maxLatency), b.period
		j.Away = min(s.away, b.maxLatency)
		j.DisableCompression = b.uncompressed
		if s.sizes != nil {
			j.Set.Name = s.name
		}
		if err := b.prepare(ctx, s, &j); err != nil {
			return rounds, fmt.Errorf("preparing %s: %w", s.name, err)
		}
		count := b.roundsOf(s)
		for round := range count {
			for _, kind := range b.contenders {
				if !s.takes(kind) {
					continue
				}
				j.Contender = kind.Name
				began := time.Now()
				r, err := b.work(ctx, j)
				if err != nil {
					return rounds, fmt.Errorf("%s of %s: %w", s.name, kind.Name, err)
				}
				rounds[kind.Name] = append(rounds[kind.Name], r)
				fmt.Fprintf(b.stderr, "%s %s, %d Secrets, round %d of %d, %s: %v\n", time.Now().Format(time.TimeOnly), s.name,
					size, round+1, count, kind.Name, time.Since(began).Round(100*time.Millisecond))
			}
		}
	}
	return rounds, nil
}

// prepare starts the control plane and makes the Secrets of a scenario. An outage has a control plane of its own. A
// warm-up has the server serve all Secrets for the first time, so that no contender pays for that.
func (b *bench) prepare(ctx context.Context, s scenario, j *job) (err error) {
	if s.stub {
		return nil
	}
	if s.outage > 0 {
		if err := b.stopCluster(); err != nil {
			return err
		}
	}
	if b.cluster == nil {
		b.cluster, err = e2e.Start(ctx, e2e.Options{Log: b.stderr, APIServerArgs: []string{noAudit}})
		if err != nil {
			return err
		}
		b.made = map[set]bool{}
	}
	j.ControlPlane = []int{b.cluster.APIServer.PID(), b.cluster.Etcd.PID()}
	config := protobuf(b.cluster.Admin())
	j.Host, j.TLS = config.Host, config.TLSClientConfig
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	b.kubernetes = version.GitVersion
	if s.noGet {
		j.ContenderTLS = &b.cluster.User(follower).TLSClientConfig
		if err := allowFollower(ctx, client); err != nil {
			return err
		}
	}
	if s.ownSet {
		j.Set = set{Name: s.name, Count: warmUps + b.samples}
	}
	if b.made[j.Set] {
		return nil
	}
	b.made[j.Set] = true
	if err := create(ctx, client, j.Set); err != nil || s.ownSet || s.sizes != nil && s.bytes == 0 {
		return err
	}
	warmUp := *j
	warmUp.Scenario, warmUp.Contender, warmUp.Outage = warmUpScenario.name, contender.Floor, 0
	_, err = b.work(ctx, warmUp)
	return err
}

// create creates the Secrets of a set.
func create(ctx context.Context, client kubernetes.Interface, set set) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: set.namespace()}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range set.Count {
		group.Go(func() error {
			_, err := client.CoreV1().Secrets(set.namespace()).Create(ctx, set.secret(i, 0), metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

func (b *bench) stopCluster() error {
	if b.cluster == nil {
		return nil
	}
	err := b.cluster.Stop()
	b.cluster = nil
	return err
}

// work has a worker do a job. The worker ends with ctx, or with this process.
func (b *bench) work(ctx context.Context, j job) (round results.Round, err error) {
	path, err := os.Executable()
	if err != nil {
		return round, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, path, workerCommand)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // only this process gets an interrupt from the terminal
	cmd.Stderr = &log
	input, inputErr := cmd.StdinPipe() // stays open: its end ends the worker
	output, outputErr := cmd.StdoutPipe()
	if err := errors.Join(inputErr, outputErr, cmd.Start()); err != nil {
		cancel()
		return round, fmt.Errorf("starting a worker: %w", err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait() // killed
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, log.Bytes()[max(0, log.Len()-logTail):])
		}
	}()
	if err := json.NewEncoder(input).Encode(j); err != nil {
		return round, fmt.Errorf("the worker does not read: %w", err)
	}
	decoder := json.NewDecoder(output)
	if j.Outage > 0 {
		var loaded bool
		if err := decoder.Decode(&loaded); err != nil {
			return round, fmt.Errorf("the worker has failed: %w", err)
		}
		b.cluster.APIServer.Kill()
		select {
		case <-time.After(j.Outage):
		case <-ctx.Done():
			return round, ctx.Err()
		}
		if err := b.cluster.APIServer.Restart(ctx); err != nil {
			return round, err
		}
	}
	if err := decoder.Decode(&round); err != nil {
		return round, fmt.Errorf("the worker has failed: %w", err)
	}
	return round, nil
}
