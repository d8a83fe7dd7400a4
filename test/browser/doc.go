// SPDX-License-Identifier: Apache-2.0

// Package browser tests the page of package manager/debug in a headless Chromium. It is a module of its own, because no
// other module needs chromedp.
//
// "make browser-test" runs the tests. They need chromium or google-chrome in PATH. With the flag -screenshots,
// TestScreenshots writes pictures of the page into a folder; docs/debug-page.png is one of them:
//
//	go test -run Screenshots . -screenshots /tmp
package browser
