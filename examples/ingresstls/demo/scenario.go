// SPDX-License-Identifier: Apache-2.0

package demo

// scenario returns the steps of the demo. They end with an Ingress and a Secret in the namespace mall, and one each in
// the namespace shop.
func (d *demo) scenario() []step {
	return []step{{
		title: "Three Ingresses name Secrets. Their Roles are generated and granted to the controller.",
		do: inOrder(
			d.createNamespace("shop"), d.createNamespace("blog"), d.createNamespace("mall"),
			d.issue("shop", "tls", "shop.example"), d.createIngress("shop", "shop", "tls", "shop.example"),
			d.issue("shop", "wildcard", "*.shop.example"), d.createIngress("shop", "all", "wildcard", "*.shop.example"),
			d.issue("blog", "tls", "blog.example"), d.createIngress("blog", "blog", "tls", "blog.example"),
			d.grant,
		),
		checks: []check{
			d.presents("shop.example", "shop/tls"), d.presents("www.shop.example", "shop/wildcard"),
			d.presents("blog.example", "blog/tls"), d.refuses("unknown.example", ""),
		},
	}, {
		title:  "The Secret shop/tls is rotated.",
		do:     d.issue("shop", "tls", "shop.example"),
		checks: []check{d.presents("shop.example", "shop/tls")},
	}, {
		title: "It is overwritten with garbage: the last good certificate stays.",
		do:    d.overwrite("shop", "tls"),
		checks: []check{
			d.keeps("shop.example", "shop/tls", "is not a PEM-encoded certificate"), d.presents("blog.example", "blog/tls"),
		},
	}, {
		title:  "It gets a new certificate.",
		do:     d.issue("shop", "tls", "shop.example"),
		checks: []check{d.presents("shop.example", "shop/tls")},
	}, {
		title:  "The API server answers the controller with 503 only, and ends its watches.",
		do:     d.disconnect,
		checks: []check{d.keeps("shop.example", "shop/tls", "last confirmed"), d.handshakes("shop.example", 500)},
	}, {
		title:  "The Secret is rotated meanwhile. Then the API server answers again.",
		do:     inOrder(d.issue("shop", "tls", "shop.example"), d.reconnect),
		checks: []check{d.presents("shop.example", "shop/tls")},
	}, {
		title: "An Ingress in mall names shop.example, too, and mall.example. No Role allows its Secret yet.",
		do: inOrder(
			d.issue("mall", "tls", "mall.example", "shop.example"),
			d.createIngress("mall", "mall", "tls", "mall.example", "shop.example"),
		),
		checks: []check{d.refuses("mall.example", "forbidden"), d.presents("shop.example", "shop/tls")},
	}, {
		title:  "The Roles are generated and granted again. The oldest Ingress keeps shop.example.",
		do:     d.grant,
		checks: []check{d.presents("mall.example", "mall/tls"), d.presents("shop.example", "shop/tls")},
	}, {
		title:  "The Secret blog/tls is deleted.",
		do:     d.deleteSecret("blog", "tls"),
		checks: []check{d.refuses("blog.example", "not found")},
	}, {
		title:  "The Ingress shop is deleted: shop.example goes to the next oldest Ingress, and the watch ends.",
		do:     d.deleteIngress("shop", "shop"),
		checks: []check{d.presents("shop.example", "mall/tls"), d.watches("shop", "tls", 0)},
	}}
}
