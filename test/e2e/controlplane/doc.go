// SPDX-License-Identifier: Apache-2.0

// Package controlplane is empty. Its module pins kube-apiserver and etcd for the end-to-end tests, as tools, so that
// other modules do not inherit their dependencies. This builds both:
//
//	go build -o DIRECTORY tool
//
// The tests run it themselves: see package github.com/refwatch/refwatch/test/e2e.
//
// To change the version of Kubernetes, update k8s.io/kubernetes, all replacements, and etcd to the version that
// k8s.io/kubernetes requires, and run go mod tidy.
package controlplane
