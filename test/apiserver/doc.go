// SPDX-License-Identifier: Apache-2.0

// Package apiserver is an in-process Kubernetes API server for tests and demonstrations.
//
// The server speaks the real protocol: client-go's clientset in JSON and protobuf, the dynamic and metadata clients
// and kubectl work with it unchanged. To a client that lists or watches it behaves as kube-apiserver 1.36 does, down to
// the codes, reasons and texts of errors. [New] starts a server for a test, [Start] starts one for a program:
//
//	server := apiserver.New(t, apiserver.Options{})
//	client := server.Client()
//
// # What works as in kube-apiserver
//
//   - Secrets, ConfigMaps, Pods, ServiceAccounts, Nodes and Namespaces of core/v1, Ingresses of networking.k8s.io/v1
//     and Leases of coordination.k8s.io/v1, with get, list, watch, create, update, patch, delete and
//     deletecollection; the status of pods, nodes, namespaces and ingresses, pods/binding, serviceaccounts/token.
//   - Custom resources, as [Options.CustomResources] defines them: in JSON and YAML, their metadata also in protobuf,
//     without strategic merge patches, updates only at a resourceVersion. Any other resource gets 404.
//   - SelfSubjectAccessReviews of authorization.k8s.io/v1, and 403 for what [Server.Authorize] refuses.
//   - One resourceVersion counter across all resources. Lists at "", "0", not older than N, exactly at N, and in
//     pages; 410 for a compacted version, 504 with cause ResourceVersionTooLarge for a future one.
//   - Watches at a version (with replay), at "" and "0" (the state first), and WatchList with the bookmark that
//     ends the initial events. A watch at a compacted version gets 410, and a WatchList at a future version 504, as
//     an ERROR event in a stream with status 200. A plain watch at a future version is silent until the server has
//     passed that version. The server ends the watch of a client that does not keep up.
//   - Field selectors (metadata.name, metadata.namespace, those of pods and nodes, type of secrets) and label
//     selectors. An update that takes an object out of a watched selection is a DELETED event with the previous
//     content.
//   - Bookmarks every minute and 2 s before the end of a watch, which comes after timeoutSeconds, or after 30 to 60
//     minutes.
//   - Conflicts, preconditions, generated names, dry run, finalizers, no-op updates that write nothing, immutable
//     Secrets and ConfigMaps, stringData, strict field validation, bodies up to 3 MiB.
//   - JSON, YAML and protobuf by negotiation, tables and partial metadata.
//   - TLS with HTTP/2 and HTTP/1.1, a bearer token, 100 streams per HTTP/2 connection.
//
// # What differs
//
//   - There is one user, "admin", who may do everything unless [Server.Authorize] says otherwise. There are no Roles,
//     and no admission beyond the check that a namespace exists.
//   - The server stores managedFields as clients send them. Server-side apply merges the configuration into the
//     object, or creates it. There are no field managers and no conflicts, and a field that a later configuration
//     omits is kept.
//   - Pods are deleted at once, whatever gracePeriodSeconds says: no kubelet runs. A namespace is deleted at once with
//     all its contents. There is no garbage collection by owner references.
//   - Custom resources have no schema, no scale subresource and no other versions, and cannot be added to a running
//     server. If the body of one has no apiVersion or kind, the server sets them.
//   - An update does not create a Lease.
//   - The server validates the names and images of a pod's containers and the fields that an update may not change; of
//     Nodes, ServiceAccounts, Ingresses and Leases it validates the metadata only. It checks that a Secret has the keys
//     that its type requires, but not their values. It sets the defaults of the pod fields that most clients read.
//   - The tokens of serviceaccounts/token have the same claims as real ones. They can be bound to pods only, and are
//     signed with random bytes: no server accepts them.
//   - The watch cache does not lag without [Server.Lag]: "0" reads the newest state, and a future version is refused at
//     once instead of after three seconds. Only writes of clients raise the counter, so a bookmark may repeat a
//     version. [Server.Compact] applies to watches at once; a real watch cache keeps its history for a while.
//   - Errors never quote object data. The real server quotes the first bytes of bodies, and patched objects.
//   - Discovery is not aggregated. OpenAPI has only the facts that kubectl reads before it writes. There is no gzip, no
//     CBOR, no audit, no priority and fairness.
//
// # Time
//
// With [Options.InMemory] a server and its clients can run in one bubble of testing/synctest: streams time out and
// bookmarks arrive in virtual time. With [Options.TLS] as well they speak HTTP/2. All goroutines in the bubble have
// ended when [Server.Close] has returned and the clients' watches are stopped.
//
// # Faults and observation
//
// All faults work over every transport and in virtual time, on requests and open watches of any client. Each lasts
// until the test ends it.
//
//   - [Server.Authorize] refuses requests, and [Server.Intercept] responds to them with errors, late or never.
//   - [Server.Rewrite] drops, delays, repeats, reorders and replaces events, and changes objects and lists.
//     [Server.Send] sends events that no write has caused, such as an old state or an error. [Server.CloseStreams]
//     ends watches.
//   - [Server.Wrap] responds with any status, header and bytes. [EndBody], [ResetBody], [ThrottleBody] and [HoldHeader]
//     make the server's own response end at any byte, take its time, or begin with its first event.
//   - [Server.Lag] stops the watch cache, [Server.Compact] drops the history, [Server.Snapshot] and [Server.Restore]
//     simulate an etcd that is restored from a backup. With [Server.RestoreKeeping] some watches stay open.
//   - [Server.Replica] starts another API server of the same etcd. Then Lag and GoAway are those of one server.
//   - [Server.GoAway] makes the clients connect again, [Server.RotateCertificate] and [Server.RotateCA] replace what
//     they trust. Package [github.com/refwatch/refwatch/test/network] has the faults of connections.
//
// [Server.Observe] notifies of writes, requests and watches as they happen. [Server.Requests] and [Server.OpenStreams]
// return the requests and open watches of clients, and [Server.WaitFor] waits for a condition on them without polling.
//
// # Concurrency
//
// All methods of [Server] are safe for concurrent use. A write is visible to every read that begins after it was
// acknowledged. Each stream receives the writes to its selection once and in order. The cost of a write grows with the
// number of watches that select its object, not with the number of open watches.
package apiserver
