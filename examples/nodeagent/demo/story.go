// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"

	"github.com/refwatch/refwatch/examples/nodeagent/volume"
)

// story is what the demo tells. Each step ends with a look at everything, so that it also shows what did
// not change and was to stay.
func (d *demo) story() []step {
	// Only the secret's files, for once it is deleted no server can be asked for them.
	db := volume.Payload{"user": {Data: []byte("shop"), Mode: 0o600}, "password": {Data: []byte("first"), Mode: 0o600}}
	story := []step{{
		what: "Three pods are bound to the node when the agent starts, and a fourth to another node.",
		do:   all(d.create, d.startAgent),
		facts: []fact{
			d.written("web-1", "tls"), d.written("web-1", "conf"), d.written("web-2", "tls"), d.written("web-2", "info"),
			d.written("worker-1", "db"), d.waiting("worker-1", "late", `secrets "shop/late" not found`),
			// Before everything is there these would be true of an agent that has not begun.
			after(d.everything(), d.streams("secrets", "tls", 1, ", which two pods share")),
			after(d.everything(), d.streams("configmaps", "settings", 0, ", which is immutable")),
			after(d.everything(), d.neverAsked("secrets", "elsewhere")),
		},
	}, {
		what:  `The missing secret "late" is created.`,
		do:    d.createSecret("late", map[string]string{"token": "at last"}),
		facts: []fact{d.written("worker-1", "late")},
	}, {
		what:  `Secret "tls" is rotated. Two pods share it.`,
		do:    d.setSecret("tls", map[string]string{"tls.crt": "certificate 2", "tls.key": "key 2"}),
		facts: []fact{d.written("web-1", "tls"), d.written("web-2", "tls")},
	}, {
		what:  `ConfigMap "app" gets one key more.`,
		do:    d.addToConfigMap("app", "features.yaml", "checkout: true\n"),
		facts: []fact{d.written("web-1", "conf")},
	}, {
		what:  `The optional secret "extra" appears.`,
		do:    d.createSecret("extra", map[string]string{"coupon": "made up"}),
		facts: []fact{d.written("web-2", "info")},
	}, {
		what:  `Secret "db" is deleted under the pod that uses it: its files stay, and the cause is reported.`,
		do:    d.deleteSecret("db"),
		facts: []fact{d.kept("worker-1", "db", `secrets "shop/db" not found`, db)},
	}, {
		what: "Pod worker-1 goes. Nobody else needs its secrets.",
		do:   d.deletePod("worker-1"),
		facts: []fact{
			d.gone("worker-1"),
			d.streams("secrets", "db", 0, ""), d.streams("secrets", "late", 0, ""), d.streams("secrets", "tls", 1, ""),
		},
	}, {
		what: `The agent is stopped. Pod web-2 goes, and "tls" is rotated again, while none runs.`,
		do: all(
			func(context.Context) error { return d.stopAgent() },
			d.deletePod("web-2"),
			d.setSecret("tls", map[string]string{"tls.crt": "certificate 3", "tls.key": "key 3"}),
		),
		facts:  []fact{d.noStreams()},
		behind: true,
	}, {
		what:  "An agent starts over the same folder.",
		do:    d.startAgent,
		facts: []fact{d.gone("web-2"), d.written("web-1", "tls")},
	}}
	for i := range story {
		if !story[i].behind {
			story[i].facts = append(story[i].facts, d.everything())
		}
	}
	return story
}
