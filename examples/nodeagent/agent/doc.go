// SPDX-License-Identifier: Apache-2.0

// Package agent watches the pods bound to one node and keeps their volumes on disk equal to the Secrets,
// ConfigMaps and pod fields that they reference.
//
// It shows how a node agent uses refwatch:
//
//	pods of the node ──▶ RegisterPod, UnregisterPod ──▶ managers ──▶ Changes ──▶ owners
//	        │                                              │                       │
//	        └──────────────▶ queue of pod UIDs ◀───────────┼───────────────────────┘
//	                               │                       │
//	                               └──▶ sync of one pod ──▶ Get ──▶ files
//
// One [reflector.Reflector] selects pods by spec.nodeName and feeds client-go's UndeltaStore, as kubelet
// does. The agent compares each state with the one before, and registers or unregisters pods with the managers. It
// queues the UID of a pod when the pod changes, and when an object that the pod references changes. Workers take UIDs
// from the queue, get the objects from the managers, and write files. A sync depends on the current state only: one
// sync may serve several changes, and a change may be queued twice.
//
// A sync never waits for an object: it uses what is in memory. If an object is missing, the volume stays as it is, and
// the pod is queued again with back-off. Pods that wait for something do not occupy workers.
//
// # Guarantees
//
//   - One sync after a change on the server, the change is on disk. Nothing polls.
//   - Volumes are independent. A volume that cannot be built (an object is absent or forbidden, a path is not
//     allowed) is reported with its cause and tried again. Until then it stays as it was. Other volumes and
//     other pods are not affected.
//   - The folder of a pod that was deleted or has ended (Succeeded, Failed) is removed. This includes pods that
//     were deleted while no agent ran: their folders are removed once the node's pods are listed.
//   - A token of a pod's service account is kept in memory and in its volume, is renewed before it expires, and is
//     never removed. If the agent may not request it, the other files of the volume are written.
//   - If two sources of a volume have the same path, the later one has the file. The status and the log name both.
//   - The agent reads the pods of its node, and Secrets and ConfigMaps by name. It creates nothing but tokens, which
//     the server does not store.
package agent
