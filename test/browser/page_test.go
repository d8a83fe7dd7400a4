// SPDX-License-Identifier: Apache-2.0

package browser_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const (
	rows     = `[...document.querySelectorAll("tbody tr")].map((row) => row.querySelector("th").innerText)`
	filter   = chromedp.CSS("input[name=filter]")
	firstRow = `document.querySelector("tbody tr").innerText`
)

// row is the text of the row of a Secret.
func row(name string) string {
	return fmt.Sprintf(`document.getElementById("o-secrets/shop/%s").innerText`, name)
}

// The page shows problems first, changes when a Secret is rotated, and keeps what the user does, all without being
// loaded again.
func TestLive(t *testing.T) {
	c := newCluster(t, 0)
	host, _ := c.serve("127.0.0.1:0")
	page := newTab(t)
	page.do(chromedp.Navigate("http://" + host + "/debug/refwatch"))
	page.await(rows + ".length === 15")
	page.await(firstRow + `.includes("bank-credentials")`)
	page.await(firstRow + `.includes("cannot list resource")`)
	page.eval(`window.notLoadedAgain = true`)

	version := c.rotate("mail-tls")
	page.await(row("mail-tls") + `.includes("` + version + `")`)

	page.do(chromedp.SendKeys(filter, "mail tls"))
	page.await(rows + `.length === 1`)
	version = c.rotate("mail-tls")
	page.await(row("mail-tls") + `.includes("` + version + `")`)
	page.await(`document.activeElement.name === "filter" && location.search === "?filter=mail+tls"`)

	page.do(chromedp.Click(`//a[text()="Show all"]`))
	page.await(rows + `.length === 15 && document.querySelector("input[name=filter]").value === ""`)
	page.do(chromedp.Click(`//th/a[text()="Object"]`))
	// The link has the other direction once the new order is shown.
	page.await(`location.search === "?sort=name" && document.querySelector("[aria-sort=ascending]")?.innerText.startsWith("Object")`)
	page.await(firstRow + `.includes("bank-credentials")`)
	page.do(chromedp.Click(`//th/a[text()="Object"]`))
	page.await(firstRow + `.includes("search-tls") && document.querySelector("[aria-sort=descending]").innerText.startsWith("Object")`)
	page.await(`document.activeElement.innerText === "Object"`)
	page.do(chromedp.NavigateBack())
	page.await(`location.search === "?sort=name" && ` + firstRow + `.includes("bank-credentials")`)

	page.eval(`document.getElementById("o-secrets/shop/registry-pull").querySelector("details").open = true; scrollTo(0, 200)`)
	version = c.rotate("registry-pull")
	page.await(row("registry-pull") + `.includes("` + version + `") && ` + row("registry-pull") + `.includes("checkout-7d9f8c6b5")`)
	page.await(`scrollY === 200 && window.notLoadedAgain`)
	page.check(host)
}

// The page shows that the API server is away, and that it has returned; and that its own process is gone, and has
// returned.
func TestAway(t *testing.T) {
	c := newCluster(t, 0)
	host, stop := c.serve("127.0.0.1:0")
	page := newTab(t)
	page.do(chromedp.Navigate("http://" + host + "/debug/refwatch"))
	page.await(`document.getElementById("gate-production").innerText.includes("No outage")`)
	page.await(`document.getElementById("phase-Serving")`)
	page.eval(`window.notLoadedAgain = true`)

	c.cut(true)
	page.await(`document.getElementById("gate-production").innerText.includes("connection refused")`)
	page.await(row("mail-tls") + `.includes("serving, not updated since")`)
	c.cut(false)
	page.await(`document.getElementById("gate-production").innerText.includes("No outage")`)
	page.await(`!` + row("mail-tls") + `.includes("not updated")`)
	page.check(host)

	stop()
	page.await(`document.getElementById("connection").innerText.startsWith("Connection to this process lost")`)
	c.serve(host)
	page.await(`document.getElementById("connection").innerText === "Live" && window.notLoadedAgain`)
}

// With scripts off, the form and the links work, and the page is loaded again from time to time.
func TestWithoutScripts(t *testing.T) {
	c := newCluster(t, 0)
	host, _ := c.serve("127.0.0.1:0")
	page := newTab(t)
	call(page, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	page.do(
		chromedp.Navigate("http://"+host+"/debug/refwatch"),
		chromedp.SendKeys(filter, "mail"+kb.Enter),
	)
	page.await(`location.search.includes("filter=mail") && ` + rows + `.length === 4`) // two by their owner
	page.do(chromedp.Click(`//th/a[text()="Object"]`))
	page.await(`location.search === "?filter=mail&sort=name"`)
	version := c.rotate("mail-tls")
	page.await(row("mail-tls") + `.includes("` + version + `")`)
	page.check(host)
}
