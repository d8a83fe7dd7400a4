// SPDX-License-Identifier: Apache-2.0

package browser_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshots", "", "folder for pictures of the page; none are written if it is empty")

// open unfolds all that can be unfolded.
const open = `for (const details of document.querySelectorAll("details")) details.open = true`

// The page fits into the width of a phone and of a desktop, in light and dark, also with all details unfolded. With
// -screenshots it is also written to files.
func TestScreenshots(t *testing.T) {
	c := newCluster(t, 0)
	host, _ := c.serve("127.0.0.1:0")
	page := newTab(t)
	page.do(chromedp.Navigate("http://" + host + "/debug/refwatch"))
	page.await(`document.getElementById("phase-Serving").innerText === "serving 12"`)
	page.await(firstRow + `.includes("bank-credentials")`)
	for name, look := range map[string]struct {
		width, height int64
		scheme        string
		background    string // of the page, so that the color scheme has an effect
	}{
		"debug-page":   {1280, 900, "light", "rgb(246, 247, 249)"},
		"desktop-dark": {1280, 900, "dark", "rgb(17, 21, 27)"},
		"phone-light":  {390, 844, "light", "rgb(246, 247, 249)"},
		"phone-dark":   {390, 844, "dark", "rgb(17, 21, 27)"},
	} {
		page.do(chromedp.EmulateViewport(look.width, look.height))
		call(page, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}},
		})
		page.await(`getComputedStyle(document.body).backgroundColor === "` + look.background + `"`)
		page.await(`document.documentElement.scrollWidth <= innerWidth`)
		page.eval(open)
		page.await(`document.querySelector("#legend").open && [...document.querySelectorAll("body *")].every((e) => e.getBoundingClientRect().right <= innerWidth)`)
		page.eval(`for (const details of document.querySelectorAll("details")) details.open = false; scrollTo(0, 0)`)
		if *screenshots == "" {
			continue
		}
		picture, err := chromedp.Run(page.ctx, chromedp.CaptureScreenshot())
		if err == nil {
			err = os.WriteFile(filepath.Join(*screenshots, name+".png"), picture, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// At three in the morning: on a desktop 20 objects fit on the first screen, one line each, below the causes. On a phone
// the first cause stands above the cards, and the first object shows its problem. That is so with a server and without,
// light and dark.
func TestFirstScreen(t *testing.T) {
	c := newCluster(t, 45)
	host, _ := c.serve("127.0.0.1:0")
	page := newTab(t)
	page.do(chromedp.Navigate("http://" + host + "/debug/refwatch"))
	for _, away := range []bool{false, true} {
		c.cut(away)
		page.await(fmt.Sprintf(`!!document.querySelector("#gate-production .cause") === %v`, away))
		page.await(rows + `.length === 60 && document.querySelectorAll("#causes li").length > 1`)

		page.do(chromedp.EmulateViewport(1440, 900))
		page.await(`[...document.querySelectorAll("tbody tr")].filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length >= 20`)
		page.await(`[...document.querySelectorAll("tbody tr")].every((row) => row.offsetHeight < 30)`)

		page.do(chromedp.EmulateViewport(390, 844))
		page.await(`document.documentElement.scrollWidth <= innerWidth`)
		page.await(`document.querySelector("#causes li").getBoundingClientRect().bottom < document.getElementById("summary").getBoundingClientRect().top`)
		page.await(`document.querySelector("#causes li").getBoundingClientRect().bottom < innerHeight / 3`)
		page.await(`document.querySelector("tbody .problem summary").offsetWidth > 200`)
	}
	page.check(host)
}

// A cause selects its objects without loading the page, and "Show all" shows all again. The details of an object stay
// open when the page changes.
func TestCause(t *testing.T) {
	c := newCluster(t, 45)
	host, _ := c.serve("127.0.0.1:0")
	page := newTab(t)
	page.do(chromedp.Navigate("http://" + host + "/debug/refwatch"))
	page.await(`document.querySelector("#causes li a").innerText === "3 × forbidden:"`)
	page.eval(`window.notLoadedAgain = true`)
	page.do(chromedp.Click(`//section[@id="causes"]//a[contains(., "3 × forbidden")]`))
	page.await(rows + `.length === 3 && location.search.startsWith("?cause=")`)
	page.do(chromedp.SendKeys(filter, "vault-0015"))
	page.await(rows + `.length === 1 && location.search.includes("cause=") && location.search.includes("filter=vault-0015")`)
	page.eval(`document.querySelector("tbody details").open = true`)
	page.await(`document.querySelector("tbody dl").innerText.includes("failed attempts")`)
	page.await(`window.changed = document.querySelector("tbody dl").innerText`)
	page.await(`document.querySelector("tbody details").open && document.querySelector("tbody dl").innerText !== window.changed`)
	page.do(chromedp.Click(`//a[text()="Show all"]`))
	page.await(rows + `.length === 60 && window.notLoadedAgain`)
	page.check(host)
}
