// SPDX-License-Identifier: Apache-2.0

// Package server serves the health checks, metrics and debug pages of the node agent, on paths that Kubernetes'
// components use:
//
//   - /: links to the others.
//   - /healthz: 200 while the process answers.
//   - /readyz: 200 when the agent is ready, or else 503 with the cause.
//   - /statusz: version, uptime and paths. /flagz: the flags with the values in use.
//   - the pages that the program adds: /metrics, /debug/refwatch.
//
// No path has authentication, and some show the names of objects: bind a loopback address, or put a proxy in front that
// authenticates and authorizes. The Host header is not checked, because such a proxy forwards that of its client. So a
// loopback address does not keep out a web page that a browser on the same machine shows (DNS rebinding).
package server
