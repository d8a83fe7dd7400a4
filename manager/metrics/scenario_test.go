// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// Each value changes for its reason, on a server.
func TestScenarioOfAStore(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.want("new", map[string]string{`references`: "0", `oldest_contact_timestamp_seconds`: ""})
		r.refer("tls", "ca")
		r.AddReference(namespace, "tls", "other")
		r.get("tls")
		r.get("unreferenced")
		r.AddReference(namespace, "absent", "pod")
		r.want("referenced", map[string]string{`absent_objects`: "1", `objects{phase="Absent"}`: "1", `references`: "4"})
		r.DeleteReference(namespace, "absent", "pod")
		r.want("synced", map[string]string{
			`absent_objects`: "0", `objects{phase="Absent"}`: "0", `objects{phase="Serving"}`: "2", `objects{phase="Failing"}`: "0", `references`: "3", `open_streams`: "2",
			`stream_opens_total{reason="first"}`: "3", `stream_events_total{type="ADDED"}`: "2",
			`gets_total{result="hit"}`: "1", `gets_total{result="not_registered"}`: "1",
			`first_sync_duration_seconds_count`: "3", `gate_queue_duration_seconds_count`: "3",
			`gate_window`: "16", `gate_outage`: "0", `gate_attempts{state="opening"}`: "0",
		})
		r.write("tls", "two")
		r.want("rotated", map[string]string{`stream_events_total{type="MODIFIED"}`: "1", `stream_opens_total{reason="ended"}`: "0"})
		time.Sleep(50 * time.Second)
		r.want("quiet", map[string]string{`oldest_contact_timestamp_seconds`: ago(50 * time.Second)})

		forbidden := apierrors.NewForbidden(corev1.Resource("secrets"), "", errors.New("no"))
		r.refuse(&forbidden.ErrStatus)
		r.AddReference(namespace, "forbidden", "pod")
		synctest.Wait()
		r.get("forbidden")
		time.Sleep(time.Second)
		r.want("forbidden", map[string]string{
			`objects{phase="Serving"}`: "2", `objects{phase="Failing"}`: "1",
			`gets_total{result="failed"}`: "1", `gets_total{result="canceled"}`: "0",
			`gate_outage`: "0", `gate_attempts{state="paused"}`: "1",
		})
		r.DeleteReference(namespace, "forbidden", "pod")
		r.refuse(nil)
		r.server.CloseStreams(nil)
		time.Sleep(time.Minute)
		r.want("reopened", map[string]string{
			`objects{phase="Serving"}`: "2", `stream_opens_total{reason="ended"}`: "2", `open_streams`: "2", `references`: "3",
		})
		r.DeleteReference(namespace, "ca", "pod")
		r.want("unregistered", map[string]string{`objects{phase="Serving"}`: "1", `open_streams`: "1", `references`: "2"})
		r.DeleteReference(namespace, "tls", "pod")
		r.DeleteReference(namespace, "tls", "other")
		r.want("empty", map[string]string{`references`: "0", `oldest_contact_timestamp_seconds`: ""})
	})
}

func TestScenarioOutage(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		var names []string
		for i := range 20 {
			names = append(names, fmt.Sprint("tls-", i))
		}
		r.refer(names...)
		r.want("synced", map[string]string{`objects{phase="Serving"}`: "20", `gate_outage`: "0"})
		down := apierrors.NewInternalError(errors.New("etcd is away"))
		r.refuse(&down.ErrStatus)
		r.server.CloseStreams(nil)
		time.Sleep(time.Minute)
		r.want("away", map[string]string{
			`objects{phase="Serving"}`: "0", `objects{phase="NotUpdated"}`: "20", `objects{phase="Failing"}`: "0", `open_streams`: "0",
			`gate_outage`: "1", `gate_window`: "1", `oldest_contact_timestamp_seconds`: ago(time.Minute),
		})
		r.refuse(nil)
		time.Sleep(30 * time.Second)
		r.want("back", map[string]string{`objects{phase="Serving"}`: "20", `open_streams`: "20", `gate_outage`: "0"})
	})
}

// Neither names nor data of objects are in a text, nor are namespaces or owners.
func TestNoNamesInMetrics(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.write("canary-name", "canary-data")
		r.AddReference(namespace, "canary-name", types.UID("canary-owner"))
		r.AddReference("canary-namespace", "canary-absent", "canary-owner")
		synctest.Wait()
		r.get("canary-name")
		text := scrape(r.t, r.registry)
		if strings.Contains(text, "canary") || !strings.Contains(text, `phase="Serving",resource="secrets",store="test"} 1`) ||
			!strings.Contains(text, `phase="Absent",resource="secrets",store="test"} 1`) {
			t.Errorf("got %s, want an object, an absent one and no canary", text)
		}
	})
}
