// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"

	"github.com/refwatch/refwatch/examples/internal/steps"
	"github.com/refwatch/refwatch/examples/nodeagent/volume"
)

// scenario returns the steps of the demo. Each ends with a check of all volumes, so that it also covers those that must
// not change.
func (d *demo) scenario() []steps.Step {
	// The files of the Secret "db". They are given here because the Secret is deleted.
	db := volume.Payload{"user": {Data: []byte("shop"), Mode: 0o600}, "password": {Data: []byte("first"), Mode: 0o600}}
	return []steps.Step{{
		Title: "Three pods are bound to the node when the agent starts, and a fourth to another node.",
		Do:    steps.InOrder(d.create, d.startAgent),
		Checks: []steps.Check{
			d.written("web-1", "tls"), d.written("web-1", "conf"), d.written("web-2", "tls"), d.written("web-2", "info"),
			d.written("worker-1", "db"), d.waiting("worker-1", "late", `secrets "shop/late" not found`),
			// These would also hold before the agent has started.
			steps.After(d.everything(), d.streams("secrets", "tls", 1, ", which two pods share")),
			steps.After(d.everything(), d.streams("configmaps", "settings", 0, ", which is immutable")),
			steps.After(d.everything(), d.notRequested("secrets", "elsewhere")),
			d.everything(),
		},
	}, {
		Title:  `The missing secret "late" is created.`,
		Do:     d.createSecret("late", map[string]string{"token": "at last"}),
		Checks: []steps.Check{d.written("worker-1", "late"), d.everything()},
	}, {
		Title:  `The secret "tls", which two pods share, is rotated.`,
		Do:     d.setSecret("tls", map[string]string{"tls.crt": "certificate 2", "tls.key": "key 2"}),
		Checks: []steps.Check{d.written("web-1", "tls"), d.written("web-2", "tls"), d.everything()},
	}, {
		Title:  `A key is added to the ConfigMap "app".`,
		Do:     d.addToConfigMap("app", "features.yaml", "checkout: true\n"),
		Checks: []steps.Check{d.written("web-1", "conf"), d.everything()},
	}, {
		Title:  `The optional secret "extra" is created.`,
		Do:     d.createSecret("extra", map[string]string{"coupon": "made up"}),
		Checks: []steps.Check{d.written("web-2", "info"), d.everything()},
	}, {
		Title:  `The secret "db" is deleted while a pod uses it: its files stay, and the cause is reported.`,
		Do:     d.deleteSecret("db"),
		Checks: []steps.Check{d.kept("worker-1", "db", `secrets "shop/db" not found`, db), d.everything()},
	}, {
		Title: "The pod worker-1 is deleted. No other pod references its secrets.",
		Do:    d.deletePod("worker-1"),
		Checks: []steps.Check{
			d.gone("worker-1"),
			d.streams("secrets", "db", 0, ""), d.streams("secrets", "late", 0, ""), d.streams("secrets", "tls", 1, ""),
			d.everything(),
		},
	}, {
		Title: `The agent is stopped. While none runs, the pod web-2 is deleted and "tls" is rotated again.`,
		Do: steps.InOrder(
			func(context.Context) error { return d.stopAgent() },
			d.deletePod("web-2"),
			d.setSecret("tls", map[string]string{"tls.crt": "certificate 3", "tls.key": "key 3"}),
		),
		Checks: []steps.Check{d.noStreams()}, // no agent runs: the files may be older than the objects,
	}, {
		Title:  "An agent is started on the same folder.",
		Do:     d.startAgent,
		Checks: []steps.Check{d.gone("web-2"), d.written("web-1", "tls"), d.everything()},
	}}
}
