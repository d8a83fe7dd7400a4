// SPDX-License-Identifier: Apache-2.0

// Package alerts tests the alerts of docs/dashboards/alerts.yaml with Prometheus' own engine: each fires in the trouble
// that it is for, after the time that it names, and none fires in a healthy program. The metrics in them exist, and
// docs/metrics.md has the same expressions.
//
// It is a module of its own, because of Prometheus.
package alerts
