// SPDX-License-Identifier: Apache-2.0

// Package simulation simulates restarts of API servers with many clients, in virtual time.
//
// The clients are real: one [reflector.Reflector] for each reference, and one [reflector.Gate] for each node. The
// servers are a model: three servers behind a load balancer, with kube-apiserver's own code for priority and fairness.
// [Kubelet] retries as kubelet's manager does, for comparison.
//
// # The model
//
//   - A node has connections with at most 100 streams each (kube-apiserver 1.36's default). A new connection goes to
//     any server that is up, and ends with it.
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
// A [Scenario] runs in a bubble of [testing/synctest]: ten minutes take a second. Back-off and load balancing are
// random, so no two runs are equal:
//
//	go test ./simulation      # small, with assertions
//	go test ./simulation -v -nodes 200 -references 100 -runs 5 -crushing -timeout 30m | grep '^[#|]'
//
// The second command prints Markdown tables of medians.
package simulation
