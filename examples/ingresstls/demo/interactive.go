// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// interactive keeps everything running until ctx ends. It prints commands to try, and each change of what clients get.
// The kubeconfig and the CA certificate are in the temporary folder. The kubeconfig's token is valid for this server
// only.
func (d *demo) interactive(ctx context.Context, rotateInterval time.Duration) error {
	kubeconfig, caFile := filepath.Join(d.dir, "kubeconfig"), filepath.Join(d.dir, "ca.crt")
	if err := d.server.WriteKubeconfig(kubeconfig); err != nil {
		return err
	}
	if err := os.WriteFile(caFile, d.authority.PEM(), 0o644); err != nil { // a CA certificate is public
		return err
	}
	d.printf("\nAll run until Ctrl-C.")
	var rotate <-chan time.Time
	if rotateInterval > 0 {
		ticker := time.NewTicker(rotateInterval)
		defer ticker.Stop()
		rotate = ticker.C
		d.printf(" The Secret square/tls is rotated every %v.", rotateInterval)
	}
	d.printf(` To try more, in another terminal:

  curl --cacert %[1]s --resolve square.example:%[2]d:%[3]s https://square.example:%[2]d/
  export KUBECONFIG=%[4]s
  kubectl get ingresses,secrets --all-namespaces
  kubectl -n square patch secret tls -p '{"stringData":{"tls.crt":"garbage"}}'   # clients get the last good certificate
  kubectl -n square delete secret tls                                            # clients get a TLS alert
  kubectl -n square delete ingress square

What clients get:
`, caFile, d.address.Port, d.address.IP, kubeconfig)
	return d.printChanges(ctx, rotate)
}

// printChanges prints what clients of each host get, whenever it changes, until ctx ends.
func (d *demo) printChanges(ctx context.Context, rotate <-chan time.Time) error {
	printed := map[string]string{}
	for {
		changed := d.controller.Changed() // before Status, so that no change is missed
		now := map[string]string{}
		for _, status := range d.controller.Status() {
			text := "TLS alert unrecognized_name"
			if c := status.Certificate; c != nil {
				text = fmt.Sprintf("serial number %v, of Secret %s", c.Leaf.SerialNumber, c.Secret)
			}
			if status.Err != nil {
				text += "; reported: " + status.Err.Error()
			}
			now[status.Host] = text
		}
		for host := range printed {
			if now[host] == "" {
				d.printf("  %s  %s: no Ingress\n", time.Now().Format(time.TimeOnly), host)
			}
		}
		for _, host := range slices.Sorted(maps.Keys(now)) {
			if now[host] != printed[host] {
				d.printf("  %s  %s: %s\n", time.Now().Format(time.TimeOnly), host, now[host])
			}
		}
		printed = now
		select {
		case <-changed:
		case <-rotate:
			if err := d.issue("square", "tls", "square.example", "shop.example")(ctx); err != nil && ctx.Err() == nil {
				d.printf("  %s  the rotation failed: %v\n", time.Now().Format(time.TimeOnly), err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}
