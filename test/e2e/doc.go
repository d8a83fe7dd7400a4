// SPDX-License-Identifier: Apache-2.0

// Package e2e starts real control planes for tests: a kube-apiserver and an etcd as processes on loopback.
//
//	func TestAgent(t *testing.T) {
//		cluster := e2e.New(t, e2e.Options{})
//		client := kubernetes.NewForConfigOrDie(cluster.Node("node-1"))
//		...
//		cluster.APIServer.Kill()
//	}
//
// Both are built from Go modules the first time, which takes minutes: see [Build]. A cluster starts in about three
// seconds. It needs no container and no privilege.
//
// # Processes
//
// The API server uses TLS, with its own certificate authority. It authorizes with Node and RBAC. It has the default
// admission plug-ins and NodeRestriction, without ServiceAccount, and writes an audit log. etcd listens on
// a socket in the cluster's folder and does not sync its files: its data survives a crash of etcd, not of the machine.
//
// No scheduler, controllers or kubelet run. To bind a pod, create it with spec.nodeName set. To remove a pod, delete it
// with a grace period of 0. A deleted namespace stays, and nothing is garbage collected. There is no service account
// "default", and no pod needs one.
//
// # Identities
//
// [Cluster.Admin] may do everything. [Cluster.Node] has the rights of a node. [Cluster.User] has the rights that RBAC
// grants, which are almost none at first. [Cluster.ServiceAccount] has a token that can be revoked.
//
// # Faults
//
// [Cluster.APIServer] and [Cluster.Etcd] are processes, which can be killed, paused and restarted.
// [Cluster.Compact] removes old versions. [Cluster.Snapshot] and [Cluster.Restore] roll etcd back. [Cluster.Proxy] can
// cut, delay and drop the traffic of clients with [Cluster.ThroughProxy].
//
// # Cleanup
//
// [Cluster.Stop] ends the processes and removes all files. If the test's process is killed, a guard process does so.
//
// # Concurrency
//
// All methods may be called from any goroutine. Those that start and stop a process wait for each other.
package e2e
