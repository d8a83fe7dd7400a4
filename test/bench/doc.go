// SPDX-License-Identifier: Apache-2.0

// Bench compares refwatch with other ways to keep the Secrets that pods reference, on a real control plane.
//
//	go run . -quick                       # a look, in three minutes
//	go run .                              # more than an hour on two CPUs
//	go run . -scenarios get -rounds 9     # one scenario; the figures of the others stay
//	go run . page FILE                    # a page of the saved figures
//
// It prints one line for each figure: its name, which ends in the unit, the median of all rounds for each contender,
// and the ratio of refwatch to kubelet. A dash stands for a missing ratio. It saves the medians in out/results.json,
// and plots beside it.
//
// # Contenders
//
//   - refwatch: its manager with manager.ClientFor and the default options.
//   - kubelet: the Secret manager of k8s.io/kubernetes with its strategy Watch.
//   - informer: a client-go SharedInformer per Secret, each with an event handler.
//   - floor: WatchList streams, one goroutine each, 64 opened at a time, and the last object in a map. It is the least
//     that one stream per object costs with client-go. It is no cache: it resumes no stream and counts no references.
//   - controller-runtime: its cache for one namespace. It lists and keeps all Secrets there, with one stream.
//   - refwatch-followed: refwatch with ten loops over Changes, in the scenario bookmarks only.
//   - refwatch-recent: refwatch with a FirstReadMaxAge of a second, in cold starts only.
//   - direct: a GET for each Get, in the scenarios command and get-after-delete only.
//   - refwatch-adapter: refwatch's cache for controller-runtime, with the client that reads its own writes, in the
//     scenario get-after-delete only.
//   - refwatch-nethttp: refwatch with a client whose streams net/http reads. It is measured in churn and neighbour,
//     and in every scenario if -contenders names it.
//
// Each measurement has a process of its own. All contenders use the same certificate, protobuf, and no limit of
// requests per second. A round measures all of them, one after another, on the same server.
//
// # Scenarios
//
// Secrets have 100 bytes. Each pod references 20, and no Secret is referenced twice. The namespace holds nothing else.
// Nobody else writes, unless a scenario says otherwise.
//
//   - memory: allocated heap, stacks in use, and goroutines per object, after nine garbage collections and without
//     those of the process before the first RegisterPod. sync-seconds is the time from the first RegisterPod until 64
//     goroutines have got every Secret. A Get takes as long as the contender allows (kubelet: one second) or a minute;
//     failed Gets are counted and repeated. The server's heap and stacks are compared after a forced garbage
//     collection. server-cpu is the CPU time of kube-apiserver, and control-plane-cpu that of kube-apiserver and etcd.
//     dials counts the connections that were dialled for all this. At the end all pods are unregistered: the figures
//     are the heap after collections, and the server's streams a second later.
//   - sync-busy: the sync of memory, while another client in a process of its own writes 200 ConfigMaps a second to the
//     same server and etcd. control-plane-cpu includes its writes. writes-per-second is what all clients wrote: it is
//     less if the contender keeps the machine too busy for the writer.
//   - first-get: RegisterPod with one new Secret and the first Get, repeatedly, on open connections.
//   - first-get-busy: the same, while another client writes as in sync-busy.
//   - cold-start: one goroutine registers a pod with one Secret and gets it, and then the next one, 200 in all. So does
//     a controller with one worker. The time counts from the start of the contender. Another client writes as in
//     sync-busy. The user may list and watch Secrets, and not get them.
//   - cold-start-get: the same with the right to get them.
//   - cold-start-referenced: as cold-start, but all pods are registered before the first Get.
//   - command: as cold-start-referenced, with 50 Secrets, while nobody else writes and with the right to get them. So
//     does a command that reads some objects by name and ends. Its end is not measured.
//   - get-after-delete: 200 Secrets are got, and then deleted one after the other. The time counts from the response to
//     the deletion until Get returns that the Secret is absent. stale-gets counts the Gets that returned it meanwhile:
//     those of refwatch-adapter and direct wait. The others are called without a pause.
//   - get: a Get of loaded Secrets in order, from one goroutine, and from one per CPU. The time is divided by all
//     calls, as in testing.B.RunParallel.
//   - register: RegisterPod and UnregisterPod of one pod with 20 Secrets, over a store that does nothing.
//   - update: from sending an update, and from its response, until Get returns it. Get is called without a pause. A Get
//     before the response counts as negative.
//   - update-stub: from the moment when the stub server begins to write an update until Get, called every 50 µs,
//     returns it. It is what the client adds, without the time of kube-apiserver and etcd. In a process that is idle,
//     Go sleeps for up to 1.1 ms in place of 50 µs: times above 1 ms say that the update did not end such a sleep.
//   - cpu: the CPU time of the process for each of 100 updates a second, which another process sends for the period.
//   - bookmarks: the CPU time of the process for each bookmark, in the 80 s after all streams were opened. The server
//     sends nothing else then, and nearly all bookmarks within few seconds.
//   - churn: five pods, with 100 Secrets, are replaced every 100 ms for the period. dials counts from the start.
//   - neighbour: 90 streams share one connection. An update is measured from the moment when the server begins to write
//     it until Get, called every 50 µs, returns it: neighbour-quiet when nothing else happens, and neighbour-busy while
//     one of the streams receives objects of 1 MiB as fast as the client consumes them.
//   - outage-2s, outage-60s: the server is killed, and started again after that time. Seconds count from its first
//     answer to a request for a Secret, which is sent every 20 ms, or from the first stream that is open again, if the
//     requests of the contender have delayed that answer. It accepts watches from the same moment on. Open streams are
//     accepted watches whose body has not ended, sampled every 50 ms in the client. At the end the server
//     must have as many, and Gets must return updates of 20 Secrets. Informers are omitted: kubelet has the same
//     reflectors.
//   - cut-4kB, cut-100kB, cut-1MiB: 1,000 Secrets of 4,000 bytes, 500 of 100,000 bytes, and 100 of 1 MiB, the most that
//     a Secret may have. Their values do not compress. When the last stream is two seconds old, all connections of the
//     client are reset. Seconds, the bytes that the client receives, and its CPU time, count from then until all
//     streams are open again, as in an outage, and the client is at rest: in the second after, it receives at most
//     16 KiB and uses at most 100 ms of CPU. At the end the server must have as many streams, and Gets must return
//     updates of 20 Secrets. Memory and the sync before the cut are measured as in memory.
//   - sync-latency: the sync of memory, on a stub server that answers each request after 1.4 s. Connections, and events
//     after the answer, are not delayed.
//   - far-100ms, far-500ms, far-1400ms, far-4s: the sync of memory, with 41 Secrets of a real server that is that round
//     trip away, and with 1,000 at 500 ms. A delay line in the client's dial holds what either side writes for half a
//     round trip. So the connects of TCP and TLS cost a round trip each, as does every request.
//   - far-in-turn: as cold-start, with 41 Secrets of a server 500 ms away. Nobody else writes.
//   - growth: the CPU time, for each of 1,000, 10,000 and 100,000 objects, of what programs do with all of them: see
//     growth.go. It measures refwatch only.
//   - many: 100,000 streams are opened, deliver one update each, and are closed. update-seconds is the time from the
//     first update until Get has returned all; close-seconds is the time until the server has no stream. It measures
//     refwatch only.
//
// The scenarios update-stub, churn, neighbour, sync-latency, growth and many run on a stub server, see package stub:
// kube-apiserver would need 6 GB for 100,000 streams, its updates take longer than what neighbour and update-stub
// measure, and it cannot delay single answers. The stub server has a process of its own, and authenticates nobody.
//
// # Assertions
//
// Every Get must return the right Secret, every update must arrive, and the server must have one stream per object, and
// none a second after refwatch unregistered all pods. A failure ends the run and keeps the figures of earlier
// scenarios. No assertion is on time.
//
// # What is not fair
//
//   - Client, server and etcd share one machine. A contender that gives the server less to do looks faster, and
//     loopback hides the network's latency, except in the scenarios that are called far.
//   - The user is an administrator. The Node authorizer would take longer, for all contenders.
//   - Kubelet's client is limited to 50 requests a second by default. Here it is not.
//   - The floor and refwatch open few streams at a time. Kubelet and informers open all at once.
//   - The informers, controller-runtime and the floor count no references per pod.
//   - controller-runtime caches unreferenced Secrets, too. Here there are none, its best case. It needs the right to
//     list all Secrets. In first-get it has them before they are registered. Its Get returns a copy.
//   - kubelet ends a stream that no Get has used for five minutes. No scenario takes that long.
//   - Every process links all contenders, which adds the same few megabytes to every heap.
//   - Requests are counted in outages and cuts only, because counting costs a little.
//   - The writer of busy scenarios shares the CPUs, too. A contender that takes more of them has fewer writes beside
//     it: compare writes-per-second.
//   - After a cut, kubelet and informers resume watches. They do not notice if the server has lost some of its state,
//     for instance in a restore of etcd. refwatch and the floor do.
package main
