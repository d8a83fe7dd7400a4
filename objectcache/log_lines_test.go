// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/testmain"
)

// Lines at level 0: each state that has a line has one for its end, and their number does not grow with the references.

// lineRig is a store whose lines at level 0 are kept, and whose connections can be closed.
type lineRig struct {
	*rig

	logger klog.Logger
	mu     sync.Mutex
	conns  []net.Conn
}

func withLines(t *testing.T, options objectcache.WatchOptions, f func(*testing.T, *lineRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &lineRig{rig: &rig{t: t, server: apiserver.New(t, apiserver.Options{InMemory: true, TLS: true}), stop: func() {}}}
		r.logger = ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
		r.client = r.server.Client()
		r.Store = newStore(t, resource.Secrets(r.newClient()), options)
		stop := runStore(klog.NewContext(t.Context(), r.logger), t, r.Store)
		synctest.Wait()
		f(t, r)
		stop()
	})
}

func (r *lineRig) newClient() kubernetes.Interface {
	config := r.server.Config()
	dial := config.Dial
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.conns = append(r.conns, conn)
		}
		return conn, err
	}
	return newClient(r.t, resource.ConfigFor(config))
}

// closeConnections closes all connections of the client, as client-go does when its certificate was rotated.
func (r *lineRig) closeConnections() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range r.conns {
		_ = conn.Close()
	}
	r.conns = nil
}

// lines returns the lines since the last call that have a text in them.
func (r *lineRig) lines() []string {
	synctest.Wait()
	buffer := r.logger.GetSink().(ktesting.Underlier).GetBuffer()
	text := strings.TrimSpace(buffer.String())
	r.logger.GetSink().(ktesting.Underlier).GetBuffer()
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// count returns how many lines have a text in them.
func count(lines []string, text string) (n int) {
	for _, line := range lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (r *lineRig) addMany(n int) {
	for i := range n {
		r.AddReference(namespace, fmt.Sprintf("tls-%d", i), "pod")
	}
	time.Sleep(10 * time.Second)
}

// When all connections are closed, as for a certificate that was rotated, streams open again, and no line at level 0
// says anything.
func TestRotationLogsNothing(t *testing.T) {
	withLines(t, objectcache.WatchOptions{}, func(t *testing.T, r *lineRig) {
		r.addMany(50)
		for range 2 {
			r.closeConnections()
			time.Sleep(time.Hour)
			r.server.GoAway() // streams go on
			time.Sleep(time.Minute)
		}
		if got := r.server.TotalStreams(); got != 50 {
			t.Errorf("streams: got %d, want 50", got)
		}
		if lines := r.lines(); len(lines) > 0 {
			t.Errorf("got %d lines, want none:\n%s", len(lines), strings.Join(lines, "\n"))
		}
	})
}

// A front end ends each stream after 15 s. One line says so, for all streams, and one says when that is over.
func TestStreamsThatLastForAShortTime(t *testing.T) {
	endIn := func(end func()) apiserver.Middleware {
		return func(w http.ResponseWriter, hr *http.Request, request apiserver.Request, next http.HandlerFunc) {
			if request.Verb != "watch" {
				next(w, hr)
				return
			}
			ctx, cancel := context.WithTimeout(hr.Context(), 15*time.Second)
			defer cancel()
			next(w, hr.WithContext(ctx))
			if hr.Context().Err() == nil {
				end()
			}
		}
	}
	tests := map[string]func(r *lineRig) (stop func()){
		"RST_STREAM": func(r *lineRig) func() {
			r.server.Wrap(endIn(func() { panic(http.ErrAbortHandler) }))
			return func() { r.server.Wrap(nil) }
		},
		"a clean end": func(r *lineRig) func() {
			r.server.Wrap(endIn(func() {}))
			return func() { r.server.Wrap(nil) }
		},
		"a closed connection": func(r *lineRig) func() { return every(15*time.Second, r.closeConnections) },
		"GOAWAY, and a closed connection": func(r *lineRig) func() {
			return every(15*time.Second, func() { r.server.GoAway(); synctest.Wait(); r.closeConnections() })
		},
	}
	for name, begin := range tests {
		for number, lasting := range map[int]time.Duration{1: 20 * time.Minute, 30: 2 * time.Minute, 300: time.Minute} {
			if number > 1 && testmain.Race || number > 30 && (testing.Short() || name != "RST_STREAM") {
				continue // it takes long
			}
			t.Run(fmt.Sprintf("%s, %d", name, number), func(t *testing.T) {
				withLines(t, objectcache.WatchOptions{}, func(t *testing.T, r *lineRig) {
					stop := begin(r)
					r.addMany(number)
					time.Sleep(lasting)
					stop()
					time.Sleep(10 * time.Minute)
					lines := r.lines()
					if got := count(lines, "Streams last about 15s") + count(lines, "Streams last about 14s"); got != 1 {
						t.Errorf("lines that streams last about 15 s: got %d, want 1", got)
					}
					if got := count(lines, "Streams last again"); got != 1 {
						t.Errorf("lines that streams last again: got %d, want 1", got)
					}
					if len(lines) > 4 || t.Failed() {
						t.Errorf("got %d lines, want 4 at most:\n%s", len(lines), strings.Join(lines[:min(20, len(lines))], "\n"))
					}
				})
			})
		}
	}
}

// every calls f at each pace until stop is called.
func every(pace time.Duration, f func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pace):
				f()
			}
		}
	}()
	return func() { cancel(); <-done }
}

// Each state of objects that the log has at level 0 has an end there, of as many objects, and few of many.
func TestEachStateInTheLogHasAnEnd(t *testing.T) {
	const begin, end, gone = "Cannot read the object", "The object can be read again", "The object is not read any more"
	for name, fails := range map[string]failing{
		"forbidden": failings()["forbidden"], "429": failings()["429"], "500": failings()["500"], "hanging": failings()["hanging"],
		"unauthorized": failings()["unauthorized"], "not served": failings()["not served"],
	} {
		for _, number := range []int{1, 200} {
			if number > 1 && (testmain.Race || testing.Short()) {
				continue // it takes long
			}
			if number > 1 && name != "500" {
				number = 30
			}
			t.Run(fmt.Sprintf("%s, %d", name, number), func(t *testing.T) {
				withLines(t, objectcache.WatchOptions{}, func(t *testing.T, r *lineRig) {
					r.server.Intercept(fails.intercept)
					r.server.Wrap(fails.wrap)
					r.addMany(number)
					time.Sleep(2 * time.Minute)
					began := count(r.lines(), begin)
					if began == 0 || began > 20 {
						t.Errorf("lines that begin: got %d, want 1 to 20", began)
					}
					r.server.Intercept(nil)
					r.server.Wrap(nil)
					time.Sleep(5 * time.Minute)
					lines := r.lines()
					began = count(lines, begin)
					if got := count(lines, end); got > began || got == 0 {
						t.Errorf("lines that end: got %d, want one for each object with lines, of %d\n%s", got, began, strings.Join(lines, "\n"))
					}
					if began, ended := count(lines, "Outage began"), count(lines, "Outage ended"); began != ended {
						t.Errorf("outages: got %d and %d, want as many ends", began, ended)
					}
				})
			})
		}
	}
	t.Run("no reference any more", func(t *testing.T) {
		withLines(t, objectcache.WatchOptions{}, func(t *testing.T, r *lineRig) {
			r.server.Intercept(answerAll(forbidden()))
			r.addMany(1)
			r.DeleteReference(namespace, "tls-0", "pod")
			if lines := r.lines(); count(lines, begin) != 1 || count(lines, gone) != 1 {
				t.Errorf("got %s, want that it is not read any more", strings.Join(lines, "\n"))
			}
		})
	})
	t.Run("alternating", func(t *testing.T) { // all objects fail and recover each minute
		withLines(t, objectcache.WatchOptions{}, func(t *testing.T, r *lineRig) {
			r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
				if time.Now().Minute()%2 == 1 && (request.Verb == "watch" || request.Verb == "list") {
					return &forbidden().ErrStatus
				}
				return nil
			})
			stop := every(20*time.Second, func() { r.server.CloseStreams(nil) })
			r.addMany(10)
			time.Sleep(30 * time.Minute)
			stop()
			if lines := r.lines(); len(lines) > 100 {
				t.Errorf("got %d lines in half an hour, want 100 at most\n%s", len(lines), strings.Join(lines, "\n"))
			}
		})
	})
}

// A Get waits for Run, and the line about that has an end.
func TestLateRunIsLogged(t *testing.T) {
	beforeRun(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
		klog.SetLogger(logger) // Run has no logger yet
		defer klog.ClearLogger()
		r.AddReference(namespace, "tls", "pod")
		_, _ = r.get("tls", 2*time.Second)
		r.run()
		if text := logText(logger); strings.Count(text, "Run has not been called") != 1 || strings.Count(text, "Run has been called") != 1 {
			t.Errorf("got %s, want that Run has not been called, and that it has", text)
		}
	})
}
