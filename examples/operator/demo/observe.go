// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/examples/internal/steps"
	"github.com/refwatch/refwatch/examples/operator/webv1"
)

// errNoStatus is the error of a Site that the operator has not reconciled since the last change of its spec.
var errNoStatus = errors.New("the operator has not reconciled it")

func keyOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// onStatus returns a check that calls look for each version of a Site until look succeeds.
func (d *demo) onStatus(name string, look func(context.Context, *webv1.Site) (string, error)) steps.Check {
	return func(ctx context.Context) (string, error) {
		// At no resourceVersion, a watch begins with the present state.
		watcher, err := d.client.Watch(ctx, &webv1.SiteList{}, client.InNamespace(namespace), client.MatchingFields{"metadata.name": name})
		if err != nil {
			return "", err
		}
		defer watcher.Stop()
		last := errNoStatus
		for {
			select {
			case event, open := <-watcher.ResultChan():
				site, ok := event.Object.(*webv1.Site)
				if !open || !ok {
					return "", fmt.Errorf("the watch of Site %s has ended: %w", name, cmp.Or(context.Cause(ctx), last))
				}
				seen, err := look(ctx, site)
				if err == nil {
					return fmt.Sprintf("Site %s: %s", name, seen), nil
				}
				last = err
			case <-d.done:
				return "", errors.Join(errors.New("the operator has stopped"), d.err)
			case <-ctx.Done():
				return "", fmt.Errorf("%w: Site %s: %w", context.Cause(ctx), name, last)
			}
		}
	}
}

// site checks the condition Ready of a Site: its reason and its message.
func (d *demo) site(name, reason, message string) steps.Check {
	return d.onStatus(name, func(_ context.Context, site *webv1.Site) (string, error) {
		ready := meta.FindStatusCondition(site.Status.Conditions, webv1.Ready)
		if ready == nil || site.Status.ObservedGeneration != site.Generation {
			return "", errNoStatus
		}
		seen := fmt.Sprintf("Ready=%s, reason %s", ready.Status, ready.Reason)
		if ready.Message != "" {
			seen += fmt.Sprintf(", message %q", ready.Message)
		}
		if ready.Reason != reason || ready.Message != message {
			return "", fmt.Errorf("%s; want reason %s, message %q", seen, reason, message)
		}
		return seen, nil
	})
}

// upToDate checks that the status of a Site has the newest version of a Secret.
func (d *demo) upToDate(name, secretName string) steps.Check {
	return d.onStatus(name, func(ctx context.Context, site *webv1.Site) (string, error) {
		var newest corev1.Secret
		if err := d.client.Get(ctx, keyOf(secretName), &newest); err != nil {
			return "", err
		}
		i := slices.IndexFunc(site.Status.Secrets, func(s webv1.SecretStatus) bool { return s.Name == secretName })
		if i < 0 {
			return "", errNoStatus
		}
		if got := site.Status.Secrets[i].ResourceVersion; got != newest.ResourceVersion {
			return "", fmt.Errorf("it has version %q of %s, the newest is %q", got, secretName, newest.ResourceVersion)
		}
		return fmt.Sprintf("has version %s of %s, the newest", newest.ResourceVersion, secretName), nil
	})
}

// watches checks how many watches of one Secret are open on the server.
func (d *demo) watches(name string, want int) steps.Check {
	return func(ctx context.Context) (string, error) {
		err := d.server.WaitFor(ctx, func() bool { return d.server.OpenStreams("secrets", keyOf(name)) == want })
		return fmt.Sprintf("server: open watches of Secret %s by name: %d", name, want), err
	}
}

// namedOnly checks that the operator has requested each Secret by its name, and none that no Site names.
func (d *demo) namedOnly() steps.Check {
	named := []string{"blog-tls", "shop-db", "shop-tls", "vault"}
	verbs := []string{"get", "list", "watch"}
	return func(context.Context) (string, error) {
		requests := 0
		for _, request := range d.server.Requests() {
			if !isOperator(request) || request.Resource != "secrets" {
				continue
			}
			requests++
			if !slices.Contains(named, request.Name) || !slices.Contains(verbs, request.Verb) {
				return "", fmt.Errorf("the operator has sent a %s of Secret %q", request.Verb, request.Name)
			}
		}
		return fmt.Sprintf("server: all %d requests of the operator for Secrets name one of %v", requests, named), nil
	}
}
