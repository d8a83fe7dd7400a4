// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// story is what the demo tells. Each step ends with a look at everything, so that it also shows what did
// not change and was to stay.
func (d *demo) story() []step {
	story := []step{{
		what: "Three pods are bound to the node when the agent starts, and a fourth to another node.",
		do: func(ctx context.Context) error {
			if err := d.create(ctx); err != nil {
				return err
			}
			return d.startAgent(ctx)
		},
		facts: []fact{
			d.written("web-1", "tls"), d.written("web-1", "conf"), d.written("web-2", "tls"), d.written("web-2", "info"),
			d.written("worker-1", "db"), d.waiting("worker-1", "late", `secrets "shop/late" not found`),
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
		facts: []fact{d.kept("worker-1", "db", `secrets "shop/db" not found`)},
	}, {
		what:  "Pod worker-1 goes. Nobody else needs its secrets.",
		do:    d.deletePod("worker-1"),
		facts: []fact{d.gone("worker-1"), d.streams("secrets", "db", 0, ""), d.streams("secrets", "late", 0, ""), d.streams("secrets", "tls", 1, "")},
	}, {
		what:  "The agent is stopped. Pod web-2 goes, and \"tls\" is rotated again, while none runs.",
		do:    all(func(context.Context) error { return d.stopAgent() }, d.deletePod("web-2"), d.setSecret("tls", map[string]string{"tls.crt": "certificate 3", "tls.key": "key 3"})),
		facts: []fact{d.noStreams()},
	}, {
		what:  "An agent starts over the same folder.",
		do:    d.startAgent,
		facts: []fact{d.gone("web-2"), d.written("web-1", "tls")},
	}}
	for i := range story {
		// While no agent runs the disk is behind, and that is no fault.
		if i != len(story)-2 {
			story[i].facts = append(story[i].facts, d.everything())
		}
	}
	return story
}

// create fills the server.
func (d *demo) create(ctx context.Context) error {
	core := d.client.CoreV1()
	_, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	errs := []error{err}
	for _, s := range demoSecrets() {
		_, err := core.Secrets(namespace).Create(ctx, s, metav1.CreateOptions{})
		errs = append(errs, err)
	}
	for _, c := range demoConfigMaps() {
		_, err := core.ConfigMaps(namespace).Create(ctx, c, metav1.CreateOptions{})
		errs = append(errs, err)
	}
	for _, p := range demoPods(d.node) {
		created, err := core.Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
		d.pods[p.Name] = created // with its UID
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (d *demo) createSecret(name string, data map[string]string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := d.client.CoreV1().Secrets(namespace).Create(ctx, secret(name, data), metav1.CreateOptions{})
		return err
	}
}

// setSecret replaces all data, and leaves the rest as it is.
func (d *demo) setSecret(name string, data map[string]string) func(context.Context) error {
	return func(ctx context.Context) error {
		secrets := d.client.CoreV1().Secrets(namespace)
		s, err := secrets.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s.Data, s.StringData = nil, data
		_, err = secrets.Update(ctx, s, metav1.UpdateOptions{})
		return err
	}
}

func (d *demo) deleteSecret(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		return d.client.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
}

func (d *demo) addToConfigMap(name, key, value string) func(context.Context) error {
	return func(ctx context.Context) error {
		configMaps := d.client.CoreV1().ConfigMaps(namespace)
		c, err := configMaps.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c.Data[key] = value
		_, err = configMaps.Update(ctx, c, metav1.UpdateOptions{})
		return err
	}
}

func (d *demo) deletePod(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		return d.client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
}
