// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// While references, streams and Gets come and go, and the server hangs, totals never go
// down and gauges are never negative. Afterwards all numbers are those of the server.
func TestScenarioChurn(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(r *rig) {
		t := r.t
		const objects, rounds = 20, 8
		name := func(i int) string { return fmt.Sprintf("hidden-%d", i) }
		for i := range objects {
			r.write(name(i), "one")
		}
		last := map[string]float64{}
		check := func() {
			for series, text := range series(scrape(t, r.registry)) {
				value, err := strconv.ParseFloat(text, 64)
				if err != nil || value < 0 {
					t.Errorf("%s: got %s, want a number that is not negative", series, text)
				}
				if isTotal := strings.Contains(series, "_total") || strings.Contains(series, "_bucket") || strings.Contains(series, "_count"); isTotal && value < last[series] {
					t.Errorf("%s: got %v after %v, want a total not to go down", series, value, last[series])
				}
				last[series] = value
			}
		}
		var all sync.WaitGroup
		for w := range 4 {
			all.Go(func() {
				for round := range rounds {
					for i := w; i < objects; i += 4 {
						r.AddReference(namespace, name(i), "pod")
						r.AddReference(namespace, name(i), "other")
					}
					time.Sleep(time.Second)
					for i := w; i < objects; i += 4 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%3)*time.Second)
						_, _ = r.Get(ctx, namespace, name(i))
						cancel()
					}
					if round < rounds-1 {
						for i := w; i < objects; i += 4 {
							r.DeleteReference(namespace, name(i), "pod")
							r.DeleteReference(namespace, name(i), "other")
						}
					}
				}
			})
		}
		all.Go(func() {
			for i := range 30 {
				if i%10 == 5 {
					r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
						<-ctx.Done()
						return nil
					})
				}
				if i%10 == 8 {
					r.server.Intercept(nil)
				}
				r.server.CloseStreams(nil)
				time.Sleep(time.Second)
			}
		})
		stop := make(chan struct{})
		scraped := make(chan struct{})
		go func() {
			defer close(scraped)
			for {
				began := time.Now()
				check()
				if time.Since(began) > 0 {
					t.Error("a scrape has waited")
				}
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		}()
		all.Wait()
		close(stop)
		<-scraped
		r.server.Intercept(nil)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		check()
		r.want("after", map[string]string{
			"open_streams": fmt.Sprint(r.server.TotalStreams()), "references": fmt.Sprint(2 * objects),
			`objects{phase="Serving"}`: fmt.Sprint(objects),
		})
		gets := func() (sum uint64) {
			for _, n := range r.Stats().Gets {
				sum += n
			}
			return sum
		}
		if got := gets(); got != objects*rounds {
			t.Errorf("gets: got %d, want %d", got, objects*rounds)
		}
	})
}
