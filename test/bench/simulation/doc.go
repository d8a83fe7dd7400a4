// SPDX-License-Identifier: Apache-2.0

// Package simulation simulates restarts of API servers with many clients, in virtual time.
//
// The clients are real: one [reflector.Reflector] for each reference, and one [reflector.Gate] for each node. The servers
// are a model: three servers with priority and fairness, behind a load balancer. [Kubelet] retries as kubelet's manager
// does, for comparison.
//
// # The model
//
//   - A node has connections with at most 100 streams each (kube-apiserver 1.36's default). A new connection goes to any
//     server that is up, and ends with it.
//   - An open takes a seat, or waits in one of the six queues of its node's hand, or is answered with 429; see
//     [ServerOptions]. With a seat it takes its share of the server's opens per second.
//   - When a server stops, its streams and waiting opens end. When it starts, it answers 429 until its watch cache is
//     ready.
//   - Bookmarks come once a minute. The objects never change, and no stream lives long enough to be renewed.
//
// Omitted are TLS handshakes, other work of the servers, lost packets, connections that die unnoticed, seats that one
// priority level lends another, and the load of etcd.
//
// # Use
//
// A [Scenario] runs in a bubble of [testing/synctest]: ten minutes take a second. Back-off and load balancing are random,
// so no two runs are equal:
//
//	go test ./simulation -v                                  # small, with assertions
//	SIMULATION_OUT=/tmp/tables.md go test ./simulation -v    # writes Markdown tables, too
//	SIMULATION_SIZE=200x100 SIMULATION_RUNS=5 go test ./simulation -v -timeout 30m
//
// SIMULATION_SIZE is nodes x references of each. It also adds the crushing load, which the small size omits.
// SIMULATION_RUNS is how often each scenario is run. The tables show medians.
package simulation
