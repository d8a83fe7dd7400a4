// SPDX-License-Identifier: Apache-2.0

package browser_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience bounds a whole test: a browser that hangs must not hang the tests.
const patience = 90 * time.Second

// tab is a tab of a browser of its own.
type tab struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex
	hosts    []string // of the requests
	problems []string // in the console
}

// newTab starts a browser, which ends with the test.
func newTab(t *testing.T) *tab {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.WindowSize(1400, 900))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // root has none
	}
	page := &tab{T: t}
	timed, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	allocator, end := chromedp.NewExecAllocator(timed, options...)
	ctx, closeTab := chromedp.NewContext(allocator, chromedp.WithListener(page.observe))
	page.ctx = ctx
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for the end of the browser; an error means that it has ended
		closeTab()
		end()
		cancel()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("no browser starts: install chromium, or let PATH have it: %v", err)
	}
	call(page, network.Enable, network.EnableParams{})
	call(page, log.Enable, cdp.Empty{})
	return page
}

// call sends a command to the browser.
func call[P, R any](t *tab, command cdp.Command[P, R], params P) {
	t.Helper()
	if _, err := chromedp.Call(t.ctx, command, params); err != nil {
		t.Fatal(err)
	}
}

// observe records requests, and all that is in the console.
func (t *tab) observe(event any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		if target, err := url.Parse(event.Request.URL); err == nil && target.Scheme != "data" {
			t.hosts = append(t.hosts, target.Host)
		}
	case *log.EventEntryAdded:
		t.problems = append(t.problems, event.Entry.Text)
	case *runtime.EventConsoleAPICalled:
		t.problems = append(t.problems, "console."+string(event.Type))
	case *runtime.EventExceptionThrown:
		t.problems = append(t.problems, event.ExceptionDetails.Text)
	}
}

// check fails the test if the page sent a request elsewhere, or if there is anything in the console.
func (t *tab) check(host string) {
	t.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, got := range t.hosts {
		if got != host {
			t.Errorf("request to %s: want none but to %s", got, host)
		}
	}
	if len(t.hosts) == 0 || len(t.problems) > 0 {
		t.Errorf("got %d requests, and in the console %q; want some, and nothing", len(t.hosts), t.problems)
	}
}

// do runs actions.
func (t *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(t.ctx, actions...); err != nil {
		t.Fatalf("%v; the page shows:\n%s", err, t.text())
	}
}

// eval evaluates an expression of JavaScript in the page.
func (t *tab) eval(expression string) {
	t.Helper()
	if _, err := chromedp.Run(t.ctx, chromedp.Evaluate[bool](expression+"; true")); err != nil {
		t.Fatal(err)
	}
}

// text returns all that the page shows.
func (t *tab) text() string {
	text, err := chromedp.Run(t.ctx, chromedp.Evaluate[string]("document.body.innerText"))
	return fmt.Sprint(text, err)
}

// await waits until an expression of JavaScript is true in the page. It does not use chromedp.Poll, which the
// Content-Security-Policy of the page forbids and which ends when the page is loaded again.
func (t *tab) await(expression string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience/3)
	defer cancel()
	for {
		if done, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")")); err == nil && done {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not true: %s; the page shows:\n%s", expression, t.text())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
