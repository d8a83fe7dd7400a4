// SPDX-License-Identifier: Apache-2.0

// Package agent follows the pods bound to one node and keeps their volumes on disk equal to the Secrets,
// ConfigMaps and pod fields that they name.
//
// It shows how the parts of refwatch go together in a node agent:
//
//	pods of the node ──▶ RegisterPod, UnregisterPod ──▶ managers ──▶ Changes ──▶ owners
//	        │                                              │                       │
//	        └──────────────▶ queue of pod UIDs ◀───────────┼───────────────────────┘
//	                               │                       │
//	                               └──▶ sync of one pod ──▶ Get ──▶ files
//
// One [reflector.Reflector] selects pods by spec.nodeName and feeds client-go's UndeltaStore, as kubelet
// does. Every state of it is compared with the one before, and pods are registered with the managers or
// unregistered. Whatever may change what a pod's volumes hold puts the pod's UID into a queue: the pod
// itself, and every change of an object that it owns a reference to. Workers take UIDs from the queue,
// ask the managers what the objects are, and write. A sync looks only at how things are, never at what
// happened; so it does not matter how many changes one sync answers, or if one comes twice.
//
// A sync never waits for an object: it asks for what is in memory. What is not there yet, or cannot be had,
// leaves the volume as it is, and the pod in the back-off of the queue. However many pods wait for something,
// the others find a worker.
//
// # What is promised
//
//   - A change on the server is on disk after one sync: no polling, no period.
//   - Volumes are independent. One that cannot be built (an absent object, one that must not be read, a
//     path that is not allowed) is reported with its cause and tried again; until then it stays as it was,
//     and the others of the pod and all other pods go on.
//   - The folders of pods that are gone, or have ended (Succeeded, Failed), are removed; also those of
//     pods that went while no agent ran, as soon as the node's pods are known.
//   - A token of a pod's service account is in memory and in its volume, is renewed before it expires, and is never
//     taken away. Where the agent may not request one, the rest of the volume is written.
//   - The agent reads the pods of its node, and the objects by name. The one thing it creates are tokens, of which
//     the server stores nothing.
package agent
