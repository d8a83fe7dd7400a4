// SPDX-License-Identifier: Apache-2.0

// Package browser tests the page of package manager/debug in a headless Chromium. It is a module of its own, because no
// other module needs chromedp.
//
// "make browser-test" runs the tests. They need chromium, google-chrome or headless-shell in PATH. With -screenshots the
// test of that name writes pictures of the page into a folder; docs/debug-page.png is one of them.
package browser
