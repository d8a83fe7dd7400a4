// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"testing"

	"github.com/refwatch/refwatch/test/model"
)

// rules are schedules that meet one rule each: a seeded bug that breaks only this rule fails one of them. Some are from
// failures that random schedules have found.
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
	"a schedule without faults leaves no stream in the end: L2": `
			put 0 0
			follow
			register 0 0 1 2
			get 0 5000
			put 0 0
			sleep 1000
			check
			delete 0
			register 1 3
			unregister 0`,
	"a large object is read after a restore that keeps its streams and its version: L1": `
			with rest-widgets
			populate
			sleep 5000
			backup
			put 5
			inject rollback-keeps-streams 0
			sleep 130000
			put 5
			sleep 130000`,
	"a DirectStore reads for each Get, also before the end of a Retry-After: L3": `
			with direct
			inject throttled-streams-closed
			get 3 1000
			get 3 5000`,
	"a dead token under many references causes few requests, whatever else fails: L5": `
			with objects 300
			populate
			sleep 5000
			inject one-backend-of-three-unavailable
			inject token-expired-streams-closed
			sleep 61000`,
	"a server that allows few streams on a connection is not dialed more often than others while dials hang: L5": `
			with streams 5
			with objects 400
			populate
			sleep 5000
			inject dials-hang
			sleep 60000`,
	"a dynamic client repeats throttled requests by itself, up to ten times each: L5": `
			with objects 10
			populate
			inject throttled
			inject half-open
			sleep 130000`,
	"connections that are frozen count as living until PINGs have failed, and dials beside them are bounded: L5": `
			with max-staleness 150000
			with streams 3
			with objects 10
			populate
			sleep 5000
			follow
			sleep 1500
			delete 0
			inject black-hole
			get 0 1
			get 7 50
			newest 6 5000
			sleep 3000
			put 6 1
			inject other-type-in-bookmarks 8 9 5 2 6
			sleep 1500
			heal 1
			sleep 700000`,
	"the end of a watch that was sent again does not end the gap that a restore has left: L1": `
			with busy 300
			inject watchlist-refused
			inject watch-cache-stopped
			inject one-backend-of-three-refuses
			sleep 130000
			heal 1
			inject slow-server
			register 1 1
			heal 1
			sleep 3000
			inject rollback`,
	"bookmarks in place of events, and none at the end of a list, lose no event: L1": `
			populate
			inject other-type-in-bookmarks 6
			inject no-end-of-initial-events 6
			sleep 130000
			put-and-get 6`,
	"a fault that ends takes its responses with it, also those that another one slows down: L1": `
			with objects 2
			inject frame-without-end 1
			inject slow-body 0 1
			register 4 1`,
	"the failures of one member are not forgotten because another kind of answer comes: L5": `
			inject one-backend-of-three-unavailable
			inject token-expired
			register 2 3
			sleep 700000`,
	"each response may need another connection while etcd is down, and such dials are not in vain: L5": `
			populate
			inject etcd-down-streams-closed
			inject goaway-again-and-again
			sleep 61000`,
	"each response may need another connection while requests are throttled, and such dials are not in vain: L5": `
			populate
			inject throttled-streams-closed
			inject goaway-again-and-again
			sleep 61000`,
}

func TestRules(t *testing.T) {
	for name, schedule := range rules {
		t.Run(name, func(t *testing.T) { model.Replay(t, schedule) })
	}
}
