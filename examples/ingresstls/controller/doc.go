// SPDX-License-Identifier: Apache-2.0

// Package controller keeps the certificates of the Secrets that Ingresses reference in memory, for a TLS server.
//
//	Ingresses ──▶ SetReferences ──▶ manager ──▶ Changes
//	    │                              │           │
//	    └──────────▶ build of the table ◀──────────┘
//	                       │   one Values.TryGet for each host
//	                       ▼
//	             table: host ──▶ certificate ◀── GetCertificate, in each handshake
//
// One [reflector.Reflector] lists and watches the Ingresses. Each Ingress is an owner that references the Secrets in
// its spec.tls. Each referenced Secret has one watch, by name. When an Ingress or a Secret changes, one goroutine
// builds a new table from what is in memory, and stores it with one atomic write. Several changes may share a build. A
// certificate is parsed once for each version of its Secret.
//
// # Which certificate a host gets
//
//   - The host is the name that the client sends (SNI). An Ingress that names the host comes before one that names the
//     wildcard *.DOMAIN, which stands for one label. Without either, it is the default certificate, if there is one.
//     Otherwise the client gets the TLS alert unrecognized_name.
//   - If several Ingresses name a host, the oldest has it; if they are equally old, the first by namespace and name.
//     The others are ignored, also while the Secret of the oldest is absent or invalid: nobody can take over a host by
//     waiting for such a moment. ingress-nginx does the same.
//   - An entry of spec.tls without hosts stands for the hosts of the Ingress's rules.
//   - The Secret must have the type kubernetes.io/tls, and its certificate must be valid for the host. An expired
//     certificate is presented, and reported: clients then see the reason.
//
// # What is presented while something is wrong
//
//   - If the Secret changes to something unusable, or access is refused, or the API server cannot be reached: the last
//     good certificate that the host had, as long as the same Ingress has the host. Also while an Ingress changes to a
//     Secret that has not been read yet.
//   - If the Secret is deleted, or the Ingress names one that does not exist: the default certificate, or the alert.
//     Deletion is how an administrator takes a certificate out of use.
//   - If the Ingress is deleted, its hosts and their certificates are dropped.
//
// [Controller.Status] reports the certificate of each host and what is wrong with it.
package controller
