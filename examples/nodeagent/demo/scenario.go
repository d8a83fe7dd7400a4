// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"

	"github.com/refwatch/refwatch/examples/nodeagent/volume"
)

// scenario returns the steps of the demo. Each ends with a check of all volumes, so that it also covers those that must
// not change.
func (d *demo) scenario() []step {
	// The files of the Secret "db". They are given here because the Secret is deleted.
	db := volume.Payload{"user": {Data: []byte("shop"), Mode: 0o600}, "password": {Data: []byte("first"), Mode: 0o600}}
	steps := []step{{
		title: "Three pods are bound to the node when the agent starts, and a fourth to another node.",
		do:    inOrder(d.create, d.startAgent),
		checks: []check{
			d.written("web-1", "tls"), d.written("web-1", "conf"), d.written("web-2", "tls"), d.written("web-2", "info"),
			d.written("worker-1", "db"), d.waiting("worker-1", "late", `secrets "shop/late" not found`),
			// These would also hold before the agent has started.
			after(d.everything(), d.streams("secrets", "tls", 1, ", which two pods share")),
			after(d.everything(), d.streams("configmaps", "settings", 0, ", which is immutable")),
			after(d.everything(), d.notRequested("secrets", "elsewhere")),
		},
	}, {
		title:  `The missing secret "late" is created.`,
		do:     d.createSecret("late", map[string]string{"token": "at last"}),
		checks: []check{d.written("worker-1", "late")},
	}, {
		title:  `The secret "tls", which two pods share, is rotated.`,
		do:     d.setSecret("tls", map[string]string{"tls.crt": "certificate 2", "tls.key": "key 2"}),
		checks: []check{d.written("web-1", "tls"), d.written("web-2", "tls")},
	}, {
		title:  `A key is added to the ConfigMap "app".`,
		do:     d.addToConfigMap("app", "features.yaml", "checkout: true\n"),
		checks: []check{d.written("web-1", "conf")},
	}, {
		title:  `The optional secret "extra" is created.`,
		do:     d.createSecret("extra", map[string]string{"coupon": "made up"}),
		checks: []check{d.written("web-2", "info")},
	}, {
		title:  `The secret "db" is deleted while a pod uses it: its files stay, and the cause is reported.`,
		do:     d.deleteSecret("db"),
		checks: []check{d.kept("worker-1", "db", `secrets "shop/db" not found`, db)},
	}, {
		title: "The pod worker-1 is deleted. No other pod references its secrets.",
		do:    d.deletePod("worker-1"),
		checks: []check{
			d.gone("worker-1"),
			d.streams("secrets", "db", 0, ""), d.streams("secrets", "late", 0, ""), d.streams("secrets", "tls", 1, ""),
		},
	}, {
		title: `The agent is stopped. While none runs, the pod web-2 is deleted and "tls" is rotated again.`,
		do: inOrder(
			func(context.Context) error { return d.stopAgent() },
			d.deletePod("web-2"),
			d.setSecret("tls", map[string]string{"tls.crt": "certificate 3", "tls.key": "key 3"}),
		),
		checks:       []check{d.noStreams()},
		agentStopped: true,
	}, {
		title:  "An agent is started on the same folder.",
		do:     d.startAgent,
		checks: []check{d.gone("web-2"), d.written("web-1", "tls")},
	}}
	for i := range steps {
		if !steps[i].agentStopped {
			steps[i].checks = append(steps[i].checks, d.everything())
		}
	}
	return steps
}
