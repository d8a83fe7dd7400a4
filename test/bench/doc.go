// SPDX-License-Identifier: Apache-2.0

// Bench compares refwatch with other ways to keep the secrets that pods reference, on a real control plane.
//
//	go run . -quick                       # a look, in under three minutes
//	go run .                              # about 75 minutes on two CPUs
//	go run . -scenarios get -rounds 9     # one scenario; the other results stay
//	go run . table -o page.md             # a page of what was measured
//
// Each figure is one line on the standard output: its name, which ends in the unit, the medians over all rounds, the
// ratio of refwatch to kubelet, and a dash for what there is none of. out/results.json has every round, and plots
// stand beside it. A scenario that is run again replaces its own figures only.
//
// # Contenders
//
//   - refwatch: its manager with manager.ClientFor and no options.
//   - kubelet: the secret manager of k8s.io/kubernetes with its strategy Watch, as it is.
//   - informer: a client-go SharedInformer per secret, each with an event handler.
//   - floor: WatchList streams, 64 opened at a time, one goroutine each, and the last object in a map. Less is not
//     possible with client-go and one stream per object. It is no cache: it resumes nothing and counts nobody.
//   - refwatch-clientgo: refwatch with WatchOptions.ClientGoReflector, so that client-go's reflector drives it.
//   - controller-runtime: its cache, in one namespace. It lists and keeps all that is there, with one stream.
//
// Every contender has a process of its own, the same certificate, protobuf, and no limit of requests per second. In
// each round all take their turn, one after the other (A B C A B C), on the same server.
//
// # Scenarios
//
// Secrets have 100 bytes; pods reference 20 each, and no secret twice. The namespace holds nothing else.
//
//   - memory: heap (allocated) and stacks (in use) after nine collections, less those before the first pod is
//     registered, by object; the same with the heap in use, which has the gaps in it; goroutines likewise. With it, sync: from the first RegisterPod until 64 workers have
//     got every secret. A Get waits as long as the contender does by itself (kubelet: one second) or a minute, a
//     failed one counts and is made again. After that all is unregistered: the heap that is left after
//     collections and a second later, and the streams the server then has. The server's own heap and stacks are
//     compared after a collection that is forced on it. Its resident memory is not comparable between contenders,
//     for it never shrinks.
//   - first-get: RegisterPod with one new secret, and the first Get, one after another on open connections.
//   - get: a Get of secrets that are there, each in turn, from one goroutine, and from one per CPU; time is divided
//     by all calls, as testing.B.RunParallel does.
//   - register: RegisterPod and UnregisterPod of one pod with 20 secrets over a store that does nothing; and over
//     the own store while it starts no streams (refwatch's before Run, kubelet's after its stop).
//   - update: from before an update is sent, and from its response, until a Get tells, asked without pause; and
//     until the change is delivered. Kubelet delivers none. What was seen before the response counts below zero.
//   - cpu: the process's user and system time in an idle minute, and during 100 updates a second. Here all
//     contenders run at once, each counted for itself.
//   - outage-2s, outage-60s: the server is killed, and started again after that time. Seconds count from the moment
//     at which it answers a request for a secret, which the driver asks for every 20 ms; it is the same moment
//     from which it takes in watches. Streams are counted in the worker, as accepted watches whose body has not
//     ended, every 50 ms: to ask the server so often would take a tenth of it. In the end the server must have as
//     many, and 20 secrets that are updated then must reach their Gets. Informers are left out: they are the same
//     reflectors as kubelet's.
//
// # What is asserted
//
// Never time. Every Get must return the right secret, every update must arrive, the server must have as many streams as
// there are objects, and none a second after refwatch has let go of the last. What fails ends the run; what was
// measured before stays.
//
// # What is not fair
//
//   - Client, server and etcd share one machine, so that whoever has the server do less looks faster, and loopback
//     hides what a network takes.
//   - The user is an administrator. A node's requests take the Node authorizer longer, for every contender.
//   - Kubelet's client is limited to 50 requests a second by default. Here it is not.
//   - The floor and refwatch open few streams at a time, kubelet and informers as many as there are, as they do.
//   - controller-runtime caches what nobody asked for. Here that is nothing, the best case for it; it needs the right
//     to list all secrets. In first-get it has them before they are registered. Its Get returns a copy.
//   - kubelet stops a stream that no Get has used for five minutes. No scenario is that long.
//   - A process has all contenders linked in, which adds the same few megabytes to every heap.
//   - Requests and dials are counted in outages only, for they cost a little.
package main
