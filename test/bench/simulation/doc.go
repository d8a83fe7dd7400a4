// SPDX-License-Identifier: Apache-2.0

// Package simulation plays the restart of API servers under many clients, in
// virtual time.
//
// The clients are real: [reflector.Reflector] and [reflector.Gate], as many as a
// cluster has references and nodes. What they ask is a model: three servers, each
// with priority and fairness, behind a load balancer. Beside them stands a loop
// that retries as kubelet's manager does; see [Kubelet].
//
// # The model
//
//   - A node has connections, each to one server for as long as that lives, with
//     at most 100 streams (kube-apiserver 1.36's default). A new one goes to any
//     server that is up.
//   - An open takes a seat, or waits in one of the six queues of its node's hand,
//     or is answered 429; see [ServerOptions]. With a seat it takes its share of
//     the server's opens per second.
//   - When a server goes, so do its streams, and whoever waits. When it comes
//     back, its watch cache is not ready at first: 429.
//   - Bookmarks come once a minute. Nothing else happens to the objects, and no
//     stream lives long enough to be renewed.
//
// Left out: TLS handshakes, the servers' other work, lost packets, connections
// that die unnoticed, seats that one priority level lends another, and the load
// of etcd.
//
// # Use
//
// All must run in a bubble of [testing/synctest]: ten minutes pass in a second.
// Back-off and balancing are random, so no two runs are equal:
//
//	go test ./simulation -v                                  # small, asserted
//	SIMULATION_OUT=/tmp/tables.md go test ./simulation -v    # and written as Markdown
//	SIMULATION_SIZE=200x100 SIMULATION_RUNS=5 go test ./simulation -v -timeout 30m
//
// SIMULATION_SIZE is nodes x references; with it, a load is played that the small
// size leaves out. SIMULATION_RUNS is how often each is repeated; medians are
// told.
package simulation
