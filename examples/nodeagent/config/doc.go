// SPDX-License-Identifier: Apache-2.0

// Package config holds the configuration of the node agent: the type of its file, defaults, and validation.
//
// The file is a versioned object, like the configuration of a Kubernetes component:
//
//	apiVersion: nodeagent.refwatch.dev/v1alpha1
//	kind: NodeAgentConfiguration
//	nodeName: worker-7
//	rootDir: /var/lib/nodeagent
//	logging:
//	  format: json
package config
