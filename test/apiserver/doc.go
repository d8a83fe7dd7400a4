// SPDX-License-Identifier: Apache-2.0

// Package apiserver is an in-process Kubernetes API server for tests and demonstrations.
//
// It speaks the real wire: client-go's clientset in JSON and protobuf, the dynamic and metadata clients and
// kubectl work against it unchanged. It is no mock: what a list or watch client can notice is meant to be what
// kube-apiserver 1.36 does, down to codes, reasons and texts of errors. [New] starts a server for a test,
// [Start] one for a program:
//
//	server := apiserver.New(t, apiserver.Options{})
//	client := server.Client()
//
// # What is true to the real server
//
//   - Secrets, ConfigMaps, Pods, ServiceAccounts, Nodes and Namespaces of core/v1, with get, list, watch, create,
//     update, patch, delete and deletecollection; pods/status, nodes/status, namespaces/status, pods/binding,
//     serviceaccounts/token.
//   - One resourceVersion counter across all resources. Lists at "", "0", not older than N, exactly at N, and in
//     pages; 410 for what has been compacted, 504 with cause ResourceVersionTooLarge for the future.
//   - Watches at a version (with replay), at "" and "0" (the state first), and WatchList with the bookmark that
//     ends the initial events. A watch too far back gets its 410, and a WatchList at a future version its 504, as
//     an ERROR event in a stream with status 200. A plain watch at a future version is silent until that version
//     has passed. A watcher that does not keep up is ended.
//   - Field selectors (metadata.name, metadata.namespace, those of pods and nodes, type of secrets) and label
//     selectors. An update that leaves a watched selection is a DELETED event with the former content.
//   - Bookmarks every minute and shortly before the end; timeoutSeconds, or 30 to 60 minutes.
//   - Conflicts, preconditions, generated names, dry run, finalizers, no-op updates that write nothing, immutable
//     Secrets and ConfigMaps, stringData, strict field validation, bodies up to 3 MiB.
//   - JSON, YAML and protobuf by negotiation, tables and partial metadata; gzip excepted.
//   - TLS with HTTP/2 and HTTP/1.1, a bearer token, 100 streams per HTTP/2 connection.
//
// # What is not
//
//   - Everybody who has the token may do everything: there is no authorization, and no admission beyond the
//     check that a namespace exists. For a refusal use [Server.Intercept].
//   - No managedFields are kept up: what clients send is stored. Server-side apply merges the configuration into
//     the object or creates it; there are no field managers, no conflicts, and no field is removed because it is
//     left out.
//   - Pods are deleted at once, whatever gracePeriodSeconds says: no kubelet runs. A namespace goes at once with
//     all it contains. Nothing is garbage collected by owner references.
//   - Pods are validated in outline (containers with names and images, fields that may not change), Nodes and
//     ServiceAccounts by their metadata alone; what types of Secrets demand is checked by keys, not by values.
//     Defaulting of pods covers the fields that most clients look at.
//   - Tokens of serviceaccounts/token have the claims of the real ones, bound to pods only, and a signature of
//     random bytes: neither this server nor another takes them.
//   - The watch cache never lags: "0" reads the newest state, and a version too large is refused at once instead
//     of after three seconds. The counter rises with the writes one makes and by nothing else, so a bookmark may
//     repeat a version. [Server.Compact] forgets for watches too; a real cache would still remember a while.
//   - Errors never quote object data, where the real server quotes beginnings of bodies and patched objects.
//   - Discovery is of the unaggregated kind, and OpenAPI says only what kubectl asks before it writes. There is no
//     gzip, no CBOR, no audit, no priority and fairness.
//
// # Time
//
// With [Options.InMemory] a server lives inside a bubble of testing/synctest together with its clients: streams
// time out and bookmarks arrive in virtual time. Everything started in the bubble has ended when
// [Server.Close] has returned and the clients' watches are stopped.
//
// # Faults and records
//
// [Server.Intercept] answers requests with errors, [Server.CloseStreams] ends watches, [Server.Compact] forgets
// the history, [Server.Snapshot] and [Server.Restore] play an etcd that is restored from a copy.
// [Server.Requests] and [Server.OpenStreams] tell what clients have done, and [Server.WaitFor] waits for it
// without polling.
//
// # Concurrency
//
// All methods of [Server] may be called at any time and from any goroutine. A write is visible to every read
// that begins after it was acknowledged, and each stream sees the writes that concern it once and in order. The
// work of a write grows with the watchers that select its object, not with all that are open.
package apiserver
