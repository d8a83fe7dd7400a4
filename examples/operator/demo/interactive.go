// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/examples/operator/webv1"
)

// interactive keeps server and operator running until ctx ends. It prints commands to try, and each change of a Site.
// The kubeconfig's token is valid for this server only.
func (d *demo) interactive(ctx context.Context) error {
	kubeconfig := filepath.Join(d.dir, "kubeconfig")
	if err := d.server.WriteKubeconfig(kubeconfig); err != nil {
		return err
	}
	d.printf(`
Server and operator run until Ctrl-C. To try more, in another terminal:

  export KUBECONFIG=%[1]s
  kubectl -n %[2]s get sites -o yaml
  kubectl -n %[2]s patch secret shop-tls -p '{"stringData":{"value":"by hand"}}'
  kubectl -n %[2]s patch site shop --type=merge -p '{"spec":{"secretNames":["shop-tls","private"]}}'
  kubectl -n %[2]s delete secret vault

Changes of Sites:
`, kubeconfig, namespace)
	return d.printChanges(ctx)
}

// printChanges prints each new version of a Site until ctx or the operator ends.
func (d *demo) printChanges(ctx context.Context) error {
	for ctx.Err() == nil { // the server ends a watch after a while
		watcher, err := d.client.Watch(ctx, &webv1.SiteList{}, client.InNamespace(namespace))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		err = d.printEvents(ctx, watcher)
		watcher.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) printEvents(ctx context.Context, watcher watch.Interface) error {
	for {
		select {
		case event, open := <-watcher.ResultChan():
			if !open {
				return nil
			}
			d.printChange(event)
		case <-d.done:
			return errors.Join(errors.New("the operator has stopped"), d.err)
		case <-ctx.Done():
			return nil
		}
	}
}

func (d *demo) printChange(event watch.Event) {
	site, ok := event.Object.(*webv1.Site)
	if !ok {
		return
	}
	var parts []string
	if ready := meta.FindStatusCondition(site.Status.Conditions, webv1.Ready); ready != nil {
		parts = append(parts, "Ready="+string(ready.Status))
	}
	for _, secret := range site.Status.Secrets {
		parts = append(parts, secret.Name+" "+cmp.Or(secret.Reason, "v"+secret.ResourceVersion))
	}
	text := cmp.Or(strings.Join(parts, ", "), "not reconciled")
	d.printf("  %s  %s %s: %s\n", time.Now().Format(time.TimeOnly), event.Type, site.Name, text)
}
