// SPDX-License-Identifier: Apache-2.0

// Package e2e starts real control planes for tests: a kube-apiserver and an etcd, as processes on loopback.
//
//	func TestAgent(t *testing.T) {
//		cluster := e2e.New(t, e2e.Options{})
//		client := kubernetes.NewForConfigOrDie(cluster.Node("node-1"))
//		...
//		cluster.APIServer.Kill()
//	}
//
// Both are built from Go modules the first time, which takes minutes, and reused from then on: see [Build].
// A boot takes about three seconds. It needs no container and no privilege.
//
// # What runs
//
// The API server speaks TLS and has an authority of its own. It authorizes by Node and RBAC, admits with the
// default plug-ins and NodeRestriction, but without ServiceAccount, and writes an audit log. etcd is
// reached through a socket in the cluster's folder, and does not sync its files: what it has acknowledged survives
// its own death, not that of the machine.
//
// No scheduler, no controllers and no kubelet run. Bind a pod by creating it with spec.nodeName set. A deleted
// pod stays until its deletion is forced with a grace period of 0, a deleted namespace for ever, and nothing is
// garbage collected. There is no service account "default", and no pod needs one.
//
// # Who may do what
//
// [Cluster.Admin] may do everything; [Cluster.Node] is a node to the Node authorizer; [Cluster.User] may do what
// RBAC grants, which is next to nothing at first; [Cluster.ServiceAccount] has a token that can be revoked.
//
// # Faults
//
// [Cluster.APIServer] and [Cluster.Etcd] are processes, which can be killed, paused and restarted.
// [Cluster.Compact] makes etcd forget, [Cluster.Snapshot] and [Cluster.Restore] take it back in time. A client
// whose configuration went [Cluster.ThroughProxy] can be cut off, held back and fooled by [Cluster.Proxy].
//
// # What is left behind
//
// Nothing. The processes end and their files go with [Cluster.Stop], and also when the test's process is killed:
// a guard outlives it for as long as that takes.
//
// # Concurrency
//
// All methods may be called from any goroutine. Those that start and stop a process wait for each other.
package e2e
