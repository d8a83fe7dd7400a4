// SPDX-License-Identifier: Apache-2.0

// Package controlplane is empty. Its module pins the kube-apiserver and the etcd that the end-to-end tests
// run against, as tools, so that what they are made of stays out of the modules that use them:
//
//	go build -o DIRECTORY tool
//
// builds both. The tests do that by themselves: see package github.com/refwatch/refwatch/test/e2e.
//
// To move to another version of Kubernetes, raise k8s.io/kubernetes, all replacements, and etcd to what
// k8s.io/kubernetes requires, and run go mod tidy.
package controlplane
