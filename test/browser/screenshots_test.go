// SPDX-License-Identifier: Apache-2.0

package browser_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

var screenshots = flag.String("screenshots", "", "folder for pictures of the page; none are written if it is empty")

// The page fits into the width of a phone and of a desktop, in light and dark. With -screenshots it is also written
// to files.
func TestScreenshots(t *testing.T) {
	c := newCluster(t, 0)
	host, _ := c.serve("127.0.0.1:0")
	page := newTab(t)
	page.do(chromedp.Navigate("http://" + host + "/debug/refwatch"))
	page.await(`document.getElementById("phase-Serving").innerText === "Serving 12"`)
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
