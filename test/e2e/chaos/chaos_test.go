// SPDX-License-Identifier: Apache-2.0

// Package chaos_test injects faults into a real control plane, one after another, under the load of package test/soak:
// 1,000 objects with 5,000 references. The control plane has two API servers on one etcd. After each fault all objects
// must be fresh within the promised time. What Gets and followers were shown must be right all the time.
//
// A run has rounds. The first has each fault once, later ones some of them: see [classes]. After each round the load
// goes on without a fault. make chaos runs ten rounds.
package chaos_test

import (
	"context"
	"flag"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/refwatch/refwatch/test/soak"
)

var (
	rounds  = flag.Int("chaos.rounds", 1, "how often the list of faults is repeated")
	only    = flag.String("chaos.only", "", "inject only faults whose name contains this")
	options = soak.Flags(soak.Options{Objects: 1000, Updates: 40, Churn: 10, Fresh: freshWithin})
)

const (
	// freshWithin is how soon all objects must be fresh after a fault, on a machine that has other work too. It is less
	// than 15 s on one that has none.
	freshWithin = 30 * time.Second
	// freshLater is the same for half-open connections and restores.
	freshLater = time.Minute
	// readsToken is the same for a token in a file, which client-go reads once a minute.
	readsToken = time.Minute + freshWithin
)

// class is a class of faults.
type class struct {
	name string
	// every is in which rounds the fault is injected: each, every second, and so on.
	every int
	// long faults are not injected with -short.
	long bool
	// within is how soon all objects must be fresh. Default: freshWithin
	within time.Duration
	// dials is how often all connections may be dialed again.
	dials  int
	inject func(*controlPlane, context.Context, *soak.Load) error
}

// classes are all faults, in the order of a round.
var classes = []class{
	{name: "one of two servers killed", every: 1, dials: 2, inject: (*controlPlane).killOne},
	{name: "etcd restored", every: 1, dials: 4, within: freshLater, inject: (*controlPlane).restore},
	{name: "compaction while disconnected", every: 1, dials: 4, inject: (*controlPlane).compact},
	{name: "servers restarted one after another", every: 1, dials: 4, inject: (*controlPlane).roll},
	{name: "all servers killed", every: 2, dials: 4, inject: (*controlPlane).killAll},
	{name: "connections half open", every: 4, long: true, dials: 2, within: freshLater, inject: (*controlPlane).loseConnections},
	{name: "etcd killed", every: 2, dials: 4, inject: (*controlPlane).killEtcd},
	{name: "one of two servers cut off from etcd", every: 2, dials: 4, inject: (*controlPlane).isolate},
	{name: "one of two servers lags behind etcd", every: 2, long: true, dials: 8, inject: (*controlPlane).lag},
	{name: "all servers restarted at once", every: 2, dials: 4, inject: (*controlPlane).restartAll},
	{name: "token revoked, and another one in the file", every: 5, long: true, dials: 4, within: readsToken, inject: (*controlPlane).revokeToken},
	{name: "pods created after their registration with a node", every: 2, inject: (*controlPlane).bindLate},
	{name: "RoleBinding deleted, and created again", every: 2, dials: 4, inject: (*controlPlane).revokeRole},
	{name: "certificate of the servers rotated", every: 5, long: true, dials: 2, inject: (*controlPlane).rotateCertificate},
	{name: "connections cut at random", every: 2, dials: 20, inject: (*controlPlane).cut},
	{name: "slow network", every: 5, long: true, dials: 4, inject: (*controlPlane).slow},
	{name: "ten streams on a connection", every: 5, long: true, dials: 30, inject: with("--http2-max-streams-per-connection=10")},
	{name: "GOAWAY at random", every: 5, long: true, dials: 20, inject: with("--goaway-chance=0.02")},
	{name: "all servers paused", every: 2, dials: 2, inject: (*controlPlane).pauseAll},
	{name: "one of two servers paused, connections cut", every: 2, dials: 4, inject: (*controlPlane).pauseOne},
	{name: "objects of 1 MiB", every: 5, long: true, dials: 4, inject: (*controlPlane).grow},
	{name: "objects deleted and created in a loop", every: 5, inject: (*controlPlane).recreate},
	{name: "namespace deleted", every: 5, inject: (*controlPlane).deleteNamespace},
	{name: "WatchList switched off", every: 2, long: true, dials: 6, inject: with("--feature-gates=WatchList=false")},
	{name: "objects answered 404", every: 5, dials: 2, inject: answered(some(status(http.StatusNotFound, http.Header{})))},
	{name: "objects answered 500", every: 5, long: true, dials: 2, inject: answered(some(status(http.StatusInternalServerError, http.Header{})))},
	{name: "objects answered 429", every: 5, long: true, dials: 2, inject: answered(some(status(http.StatusTooManyRequests, retryAfter)))},
	{name: "objects hanging", every: 5, long: true, dials: 2, inject: answered(some(hanging))},
	{name: "Secrets answered 429, ConfigMaps not", every: 5, dials: 2, inject: answered(ofSecrets(status(http.StatusTooManyRequests, retryAfter)))},
	{name: "WatchList ended before its bookmark", every: 5, long: true, dials: 2, inject: answered(endedEarly)},
	{name: "frames of 1 GiB", every: 5, long: true, dials: 2, inject: answered(endless)},
	{name: "client suspended", every: 5, dials: 2, inject: (*controlPlane).suspend},
}

// Every promise holds under each fault.
func TestChaos(t *testing.T) {
	faults, err := selected(*only, testing.Short())
	if err != nil {
		t.Fatal(err)
	}
	p := newControlPlane(t)
	soak.RunCycles(t, p.server(), *options, p.cycles(*rounds, faults))
}

// A text that is part of no name is an error that lists the names.
func TestSelected(t *testing.T) {
	if faults, err := selected("paused", true); err != nil || len(faults) != 2 {
		t.Errorf("got %d faults, error %v, want 2", len(faults), err)
	}
	for name, only := range map[string]string{"no such name": "typo", "only a long fault has it": "half open"} {
		faults, err := selected(only, true)
		if err == nil || !strings.Contains(err.Error(), "\n\tetcd restored") || strings.Contains(err.Error(), "\tconnections half open") {
			t.Errorf("%s: got %d faults, error %v, want an error with the names of the short faults", name, len(faults), err)
		}
	}
}
