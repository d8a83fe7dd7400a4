// SPDX-License-Identifier: Apache-2.0

package demo

import "github.com/refwatch/refwatch/examples/internal/steps"

// scenario returns the steps of the demo. They end with an Ingress and a Secret in the namespace square, and one each
// in the namespace shop. Ages have a resolution of a second, and of two Ingresses of one age the first by namespace has
// the host: so shop precedes square.
func (d *demo) scenario() []steps.Step {
	return []steps.Step{{
		Title: "Three Ingresses name Secrets. Their Roles are generated and granted to the controller.",
		Do: steps.InOrder(
			d.createNamespace("shop"), d.createNamespace("blog"), d.createNamespace("square"),
			d.issue("shop", "tls", "shop.example"), d.createIngress("shop", "shop", "tls", "shop.example"),
			d.issue("shop", "wildcard", "*.shop.example"), d.createIngress("shop", "all", "wildcard", "*.shop.example"),
			d.issue("blog", "tls", "blog.example"), d.createIngress("blog", "blog", "tls", "blog.example"),
			d.grant,
		),
		Checks: []steps.Check{
			d.presents("shop.example", "shop/tls"), d.presents("www.shop.example", "shop/wildcard"),
			d.presents("blog.example", "blog/tls"), d.refuses("unknown.example", ""),
		},
	}, {
		Title:  "The Secret shop/tls is rotated.",
		Do:     d.issue("shop", "tls", "shop.example"),
		Checks: []steps.Check{d.presents("shop.example", "shop/tls")},
	}, {
		Title: "It is overwritten with garbage: the last good certificate stays.",
		Do:    d.overwrite("shop", "tls"),
		Checks: []steps.Check{
			d.keeps("shop.example", "shop/tls", "is not a PEM-encoded certificate"), d.presents("blog.example", "blog/tls"),
		},
	}, {
		Title:  "It gets a new certificate.",
		Do:     d.issue("shop", "tls", "shop.example"),
		Checks: []steps.Check{d.presents("shop.example", "shop/tls")},
	}, {
		Title:  "The API server answers the controller with 503 only, and ends its watches.",
		Do:     d.disconnect,
		Checks: []steps.Check{d.keeps("shop.example", "shop/tls", "last confirmed"), d.handshakes("shop.example", 500)},
	}, {
		Title:  "The Secret is rotated meanwhile. Then the API server answers again.",
		Do:     steps.InOrder(d.issue("shop", "tls", "shop.example"), d.reconnect),
		Checks: []steps.Check{d.presents("shop.example", "shop/tls")},
	}, {
		Title: "An Ingress in square names shop.example, too, and square.example. No Role allows its Secret yet.",
		Do: steps.InOrder(
			d.issue("square", "tls", "square.example", "shop.example"),
			d.createIngress("square", "square", "tls", "square.example", "shop.example"),
		),
		Checks: []steps.Check{d.refuses("square.example", "forbidden"), d.presents("shop.example", "shop/tls")},
	}, {
		Title:  "The Roles are generated and granted again. The oldest Ingress keeps shop.example.",
		Do:     d.grant,
		Checks: []steps.Check{d.presents("square.example", "square/tls"), d.presents("shop.example", "shop/tls")},
	}, {
		Title:  "The Secret blog/tls is deleted.",
		Do:     d.deleteSecret("blog", "tls"),
		Checks: []steps.Check{d.refuses("blog.example", "not found")},
	}, {
		Title:  "The Ingress shop is deleted: shop.example goes to the next oldest Ingress, and the watch ends.",
		Do:     d.deleteIngress("shop", "shop"),
		Checks: []steps.Check{d.presents("shop.example", "square/tls"), d.watches("shop", "tls", 0)},
	}}
}
