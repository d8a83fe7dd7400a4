// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Servers send what is in their queues for a stream that the client has reset. nginx that ignores that clients leave
// does so even after the acknowledgement of a PING that followed. None of it ends the other streams of the connection.
func TestCloseAmidData(t *testing.T) {
	t.Parallel()
	const rounds, each = 10, 5
	servers := map[string]func(*testing.T) (address string){
		"nginx, proxy_ignore_client_abort": func(t *testing.T) string {
			return startNginx(t, frontEndOptions{backend: servePour(t), server: "proxy_ignore_client_abort on;"}).address
		},
	}
	for name, configure := range goServers {
		servers["Go: "+name] = func(t *testing.T) string {
			return serveGo(t, http.HandlerFunc(pour), func(s *http.Server) error { return configure(s, limits{}) }).address()
		}
	}
	for _, front := range frontEnds {
		servers[front.name] = func(t *testing.T) string {
			return front.start(t, frontEndOptions{backend: servePour(t)}).address
		}
	}
	for name, start := range servers {
		t.Run(testName(name), func(t *testing.T) {
			w := newWatcher(t, refwatch, start(t))
			w.open(each)
			for range rounds {
				w.open(each)
				w.closeAfter(each)
				w.alive()
			}
			if got, want := w.dialled(), 1; got > want+1 {
				t.Errorf("got %d connections, want %d", got, want)
			}
			results.add(name, fmt.Sprintf("%d streams closed amid data", rounds*each), refwatch,
				fmt.Sprintf("the other %d go on", each))
		})
	}
}

// pour sends data until the request ends.
func pour(w http.ResponseWriter, r *http.Request) {
	_, err := w.Write([]byte("hello\n"))
	line := []byte(strings.Repeat("x", 16<<10) + "\n")
	for err == nil && r.Context().Err() == nil {
		_, err = w.Write(line)
	}
}

func servePour(t *testing.T) (address string) {
	s := httptest.NewServer(http.HandlerFunc(pour))
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	return s.Listener.Addr().String()
}
