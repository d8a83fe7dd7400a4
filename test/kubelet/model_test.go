// SPDX-License-Identifier: Apache-2.0

package kubelet_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kubeletmanager "k8s.io/kubernetes/pkg/kubelet/util/manager"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/model"
	"github.com/refwatch/refwatch/test/reliability"
)

var modelRuns = flag.Int("model.runs", 0, "how often each fault of package test/model is injected under kubelet's managers; 0 skips that")

// subject is a manager with kubelet's interface, as package test/model drives it.
type subject struct {
	kubeletmanager.Manager

	stop func()
}

// Run implements model.Subject. Kubelet's manager runs since it was made.
func (s *subject) Run(ctx context.Context) error {
	<-ctx.Done()
	s.stop()
	return nil
}

// Get implements model.Subject. Kubelet's Get waits for a second at most; as kubelet does, the caller tries again.
func (s *subject) Get(ctx context.Context, namespace, name string) (metav1.Object, error) {
	for {
		object, err := s.GetObject(namespace, name)
		switch {
		case err == nil:
			return object.(metav1.Object), nil
		case apierrors.IsNotFound(err):
			return nil, err
		case strings.HasSuffix(err.Error(), "not registered"):
			return nil, fmt.Errorf("%w: %w", objectcache.ErrNotRegistered, err)
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", objectcache.ErrNotSynced, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// subjectsOfKubelet returns kubelet's managers of Secrets and ConfigMaps, with the rate limit of a kubelet's client.
func subjectsOfKubelet(ctx context.Context, config *rest.Config, _ objectcache.WatchOptions) (subjects []model.Subject, err error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	for _, k := range []kind{secrets, configMaps} {
		m, stop := newKubelet(ctx, k, client)
		subjects = append(subjects, &subject{m, stop})
	}
	return subjects, nil
}

// TestModelOfKubelet counts the runs of test/model's matrix in which kubelet's managers break a rule, and prints a
// table. It fails only if the managers of this library break one.
func TestModelOfKubelet(t *testing.T) {
	if *modelRuns == 0 {
		t.Skip("-model.runs is 0")
	}
	// client-go's handlers log, and sleep by a clock of the process, which a bubble does not have.
	defer func(handlers []utilruntime.ErrorHandler) { utilruntime.ErrorHandlers = handlers }(utilruntime.ErrorHandlers)
	utilruntime.ErrorHandlers = nil
	const references = 10
	var table strings.Builder
	runs, brokenRuns, ourRuns := 0, 0, 0
	began := time.Now()
	fmt.Fprintf(&table, "| class | fault | runs | kubelet's managers broke a rule in | rules | refwatch |\n|--:|---|--:|--:|---|--:|\n")
	count := func(class int, name string, faults ...model.Fault) {
		rules, broken, ours := map[string]int{}, 0, 0
		for i := range *modelRuns {
			s := model.DrawMatrix(references, faults...).Example(i)
			idle := model.Schedule{{Op: "with idle-timeout", Args: []int{int(5 * resyncInterval / time.Millisecond)}}} // as kubelet has
			if failed := runOnce(t, append(idle, s...), model.Options{NewSubjects: subjectsOfKubelet}, rules); failed != "" {
				broken++
			}
			if failed := runOnce(t, s, model.Options{}, map[string]int{}); failed != "" {
				ours++
				t.Errorf("refwatch, %s:\n%s\n%s", name, failed, s)
			}
		}
		var found []string
		for _, rule := range slices.SortedFunc(maps.Keys(rules), func(a, b string) int { return cmp.Compare(rules[b], rules[a]) }) {
			found = append(found, fmt.Sprintf("%s %d", rule, rules[rule]))
		}
		runs, brokenRuns, ourRuns = runs+*modelRuns, brokenRuns+broken, ourRuns+ours
		fmt.Fprintf(&table, "| %d | %s | %d | %d | %s | %d |\n", class, name, *modelRuns, broken, strings.Join(found, ", "), ours)
	}
	count(0, "no fault")
	for _, f := range model.Catalog() {
		count(f.Class, f.Name, f)
	}
	t.Logf("violations by rule:\n%s", &table)
	err := reliability.Record(reliability.Result{
		Part: "kubelet", Name: "runs with one fault or none, also on kubelet's managers", Count: int64(runs), Violations: int64(ourRuns),
		Seconds: time.Since(began).Seconds(), Note: fmt.Sprintf("kubelet's managers broke a rule in %d", brokenRuns),
	})
	if err != nil {
		t.Error(err)
	}
}

// runOnce runs a schedule, and adds 1 for each rule that was broken in it.
func runOnce(t *testing.T, s model.Schedule, options model.Options, rules map[string]int) (failure string) {
	defer func() {
		if r := recover(); r != nil { // goroutines are left
			rules["goroutines"]++
			failure = fmt.Sprint(r)
		}
	}()
	result := s.Run(t, options)
	broken := map[string]bool{}
	for _, v := range result.Violations {
		broken[v.Rule] = true
	}
	if result.Err != nil {
		broken["run"] = true
	}
	for rule := range broken {
		rules[rule]++
	}
	return result.Failure()
}
