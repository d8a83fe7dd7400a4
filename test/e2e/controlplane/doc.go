// SPDX-License-Identifier: Apache-2.0

// Package controlplane is empty. Its module pins kube-apiserver and etcd for the end-to-end tests and kubectl for the
// tests of test/apiserver, as tools, so that other modules do not inherit their dependencies. This builds all of them:
//
//	go build -o DIRECTORY tool
//
// The end-to-end tests build the first two themselves: see package github.com/refwatch/refwatch/test/e2e. "make
// kubectl" builds the third.
//
// To change the version of Kubernetes, update k8s.io/kubernetes, all replacements, and etcd to the version that
// k8s.io/kubernetes requires, and run go mod tidy. The variable KUBERNETES selects others: see ../version.go.
package controlplane
