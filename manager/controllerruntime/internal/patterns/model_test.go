// SPDX-License-Identifier: Apache-2.0

package patterns_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/history"
	"github.com/refwatch/refwatch/test/model"
	"github.com/refwatch/refwatch/test/reliability"
)

var (
	schedules = flag.Int("patterns.schedules", 1, "how many schedules run for each pattern")
	seed      = flag.Uint64("patterns.seed", 1, "the seed of the schedules; 0 draws one, and logs it")
)

// Random schedules of writes, faults and restarts break no promise of an operator of any pattern.
func TestPatterns(t *testing.T) {
	if testing.Short() {
		t.Skip("many schedules: not with -short")
	}
	base := *seed
	if base == 0 {
		base = rand.Uint64()
	}
	t.Logf("-patterns.seed=%d", base)
	drawn := model.Draw()
	var run, restarted, violations atomic.Int64
	began := time.Now()
	t.Cleanup(func() { // after all patterns
		for _, r := range []reliability.Result{
			{Name: reliability.Schedules, Count: run.Load(), Violations: violations.Load(), Seconds: time.Since(began).Seconds()},
			{Name: "restarts", Count: restarted.Load()},
		} {
			r.Part = "operators"
			if err := reliability.Record(r); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range patterns {
		p := &patterns[i]
		t.Run(strings.ReplaceAll(p.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(base, uint64(i)))
			restarts, reached := 0, int64(0)
			for range *schedules {
				seed := int(random.Uint64()>>1) | 1 // for rapid 0 is none
				s := p.schedule(append(drawn.Example(seed), drawn.Example(seed+2)...))
				result, o := p.run(t, s)
				run.Add(1)
				if result.Failure() != "" {
					violations.Add(1)
					report(t, p, seed, s, result)
					return
				}
				restarts += o.stops - 1
				reached += result.Reached
			}
			restarted.Add(int64(restarts))
			t.Logf("%d schedules, %d restarts, %d effects of faults", *schedules, restarts, reached)
		})
	}
}

// schedule changes a schedule to what an operator has: the references of a custom resource only grow, because the
// cache keeps what a Get has asked for, and what would end some is a restart.
func (p *pattern) schedule(drawn model.Schedule) (s model.Schedule) {
	s = append(s, model.Step{Op: "with watch-immutable"})
	for _, step := range drawn {
		fault, isFault := strings.CutPrefix(step.Op, "inject ")
		switch step.Op {
		case "delete", "backup", "reference", "get", "loop", "follow", "unfollow", "block-follower", "heal", "sleep", "check", "quick",
			"with objects", "with no-watchlist":
			s = append(s, step)
		case "with streams":
			if !p.live && !p.held { // client-go's informers wait for a stream that a watch of their own takes
				s = append(s, step)
			}
		case "put": // no immutable one: a new custom resource is no new owner in the cache
			s = append(s, model.Step{Op: "put", Args: step.Args[:1]})
		case "register":
			for _, object := range step.Args[1:] {
				s = append(s, model.Step{Op: "reference", Args: []int{step.Args[0] / 2, object}})
			}
		case "unregister", "release", "replace", "probe":
			s = append(s, model.Step{Op: "restart"})
		default:
			if isFault && fault != "transform-blocks" && p.allows(fault) {
				s = append(s, step)
			}
		}
	}
	return s
}

// How soon an operator must have seen a write. One worker waits for SyncTimeout for each object that hangs.
const fresh = 45 * time.Second

// recovery is how much later the stock cache recovers than this library: client-go waits for 30 s and more between two
// attempts.
const recovery = 90 * time.Second

// run runs a schedule with an operator.
func (p *pattern) run(t *testing.T, s model.Schedule) (result model.Result, o *operator) {
	options := p.options()
	options.NewSubjects = func(_ context.Context, config *rest.Config, _ objectcache.WatchOptions) ([]model.Subject, error) {
		o = newOperator(p, config)
		if p.silent {
			return []model.Subject{o}, nil
		}
		return []model.Subject{follower{o}}, nil
	}
	return s.Run(t, options), o
}

func (p *pattern) options() model.Options {
	return model.Options{
		Lasting:  true,
		Streams:  p.streams,
		Rereads:  p.newClient != nil && p.writes, // a Get after a write that failed is live
		Allowed:  p.mayRequest,
		Recovery: map[bool]time.Duration{true: recovery, false: 5 * time.Second}[p.live || p.held],
		Limits: func(l *history.Limits) {
			l.Fresh, l.ImmutableFresh = fresh, fresh
			l.Attempt = 0 // a reconcile of another object may wait for SyncTimeout
			l.HoldsMore = p.readsStock()
			l.Forgets = p.newClient != nil && p.writes // a read of what it has written fails if that does not arrive
			l.Streams = 2 * max(1, p.streams)
			l.OutageFailures *= 2 // of two processes, each of which learns of the outage
			l.ObjectRequests *= max(1, p.streams)
			l.ObjectFailures *= max(1, p.streams)
			if p.live || p.held {
				l.Forgets = true
				l.ObjectRequests, l.ObjectFailures, l.OutageFailures, l.OutageDials = 0, 0, 0, 0
			}
		},
	}
}

// mayRequest reports whether the operator may send a request that is not a read of one Secret.
func (p *pattern) mayRequest(request apiserver.Request) bool {
	switch {
	case request.Resource != "secrets":
		return false
	case slices.Contains([]string{"list", "watch"}, request.Verb):
		return p.held && request.Name == "" && p.selects(request)
	}
	return p.writes && slices.Contains([]string{"create", "update", "patch"}, request.Verb)
}

// selects reports whether a list or watch has the selector, or is in a namespace, of the operator's cache.Options.
func (p *pattern) selects(request apiserver.Request) bool {
	of := p.stock.ByObject[secret]
	_, ok := of.Namespaces[request.Namespace]
	return (of.Label == nil || request.Query.Get("labelSelector") == of.Label.String()) &&
		(of.Field == nil || request.Query.Get("fieldSelector") == of.Field.String()) &&
		(of.Namespaces == nil || ok)
}
