// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"testing"

	"github.com/refwatch/refwatch/test/model"
)

// rules are schedules that meet one rule each: a seeded bug that breaks only this rule fails one of them.
var rules = map[string]string{
	"a registration that keeps an object causes no request: L3": `
			put 0
			put 6
			register 0 0
			sleep 1000
			register 0 0 3
			register 2 0
			register 0 3
			replace 2 1`,
	"the phase of an object is what a TryGet returns: S11": `
			with max-staleness 60000
			put 0
			register 0 0 3
			sleep 1000
			try 0
			try 3
			inject etcd-down-streams-closed
			sleep 100000
			try 0
			try 3`,
	"a demanding Get returns the newest state: S3": `
			put 0
			register 0 0
			sleep 1000
			inject half-open
			put 0
			live 0 20000
			newest 0 20000`,
	"a demanding Get returns no absence from before a write: S4": `
			register 0 0
			sleep 1000
			inject half-open
			put 0
			live 0 20000
			newest 0 20000`,
	"a demanding Get waits until its context ends: L1": `
			put 0
			put 6
			register 0 0 3
			sleep 1000
			put-and-get 0 5000 0
			put-and-get 6 5000 0
			sleep 6000`,
	"a Get whose context ends returns no absence: S4": `
			put 0
			inject objects-hang 0
			register 0 0
			loop 0 3000
			sleep 6000`,
	"a Get that waits ends with the last reference: S5": `
			put 0
			inject objects-hang 0
			register 0 0
			get 0 20000
			unregister 0
			sleep 6000`,
	"a Get without a reference returns ErrNotRegistered: S5": `
			put 0
			register 0 0
			get 0 1000
			unregister 0
			get 0 1000
			try 0`,
	"a DirectStore reads for each Get: S3": `
			with direct
			put 0
			register 0 0
			get 0 1000
			inject one-server-lags 0
			inject one-server-lags 1
			put 0
			get 0 1000
			newest 0 1000
			delete 0
			get 0 1000`,
	"a DirectStore sends one request for each Get: L3": `
			with direct
			put 0
			register 0 0
			loop 0 1000
			live 0 1000
			get 3 1000`,
	"a server that lags is not one that was restored: S2": `
			put 0
			register 0 0
			sleep 1000
			inject one-server-lags 0
			put 0
			sleep 1000
			inject connections-cut
			loop 0 20000
			sleep 3000
			inject connections-cut
			sleep 20000`,
	"a stream that a restore has kept ends when another proves it: L1": `
			put 0
			put 3
			register 0 0
			register 1 3
			sleep 1000
			backup
			put 0
			put 3
			sleep 1000
			inject rollback-keeps-streams 0
			sleep 130000
			heal 0
			sleep 61000
			check`,
	"a live Get reads from etcd beside a server that lags: S3": `
			put 0
			register 0 0
			sleep 1000
			inject one-server-lags 0
			put 0
			live 0 5000
			sleep 6000
			heal 0
			sleep 16000
			inject one-server-lags 1
			put 0
			live 0 5000
			sleep 6000`,
	"what a Get has returned stays as it was: S9": `
			put 0
			put 3
			register 0 0
			register 1 3
			get 0 1000
			get 3 1000
			put 0
			put 3
			get 0 1000
			delete 3
			put 3
			check`,
	"a server that answers nothing leaves new objects to the other one: L4": `
			put 0
			put 1
			put 2
			register 0 0 1 2
			sleep 1000
			inject one-server-hangs 0
			probe 0
			probe 1
			probe 2`,
	"a fault that cuts connections leaves none that is cut later: L1": `
			with direct
			inject connections-cut-at-any-byte
			get 0 5000
			not-staler 3 1
			reference
			live 7 5000
			get 0 1`,
	"an immutable object that is watched is fresh: L1": `
			with watch-immutable
			put 0 1
			register 0 0
			sleep 1000
			put 0 1
			sleep 16000
			get 0 1000
			check`,
	"an immutable object is read again: L1": `
			put 0 1
			register 0 0
			sleep 1000
			delete 0
			sleep 700000
			sleep 700000
			get 0 1000`,
}

func TestRules(t *testing.T) {
	for name, schedule := range rules {
		t.Run(name, func(t *testing.T) { model.Replay(t, schedule) })
	}
}
