// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"golang.org/x/net/http2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/objectcache"
)

// refusals are what a front end does with a connection after the TLS handshake, and how a user sees it: also of a list,
// which net/http sends.
var refusals = map[string]struct {
	config *tls.Config // nil: that of a plain server
	do     func(c *tls.Conn)
	want   string
}{
	"closes":                         {do: func(*tls.Conn) {}, want: "unexpected EOF"},
	"resets":                         {do: func(c *tls.Conn) { _ = c.NetConn().(*net.TCPConn).SetLinger(0); _ = c.NetConn().Close() }, want: "connection reset by peer"},
	"wants a certificate":            {config: &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}, want: "remote error: tls: certificate required"},
	"refuses by another alert":       {config: &tls.Config{VerifyConnection: func(tls.ConnectionState) error { return errors.New("no") }, ClientAuth: tls.RequestClientCert}, want: "remote error: tls: bad certificate"},
	"goes away":                      {do: func(c *tls.Conn) { goAway(c, true) }, want: "ENHANCE_YOUR_CALM"},
	"goes away without SETTINGS":     {do: func(c *tls.Conn) { goAway(c, false) }, want: "PROTOCOL_ERROR"},
	"answers in HTTP/1.1":            {do: func(c *tls.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }, want: "the frame header looked like an HTTP/1.1 header"},
	"sends what is no frame":         {do: func(c *tls.Conn) { _, _ = io.WriteString(c, strings.Repeat("\xff", 64)) }, want: "frame too large"},
	"closes after half of a preface": {do: func(c *tls.Conn) { _, _ = io.WriteString(c, "\x00\x00\x06\x04") }, want: "unexpected EOF"},
}

// goAway sends a GOAWAY.
func goAway(c *tls.Conn, settings bool) {
	framer := http2.NewFramer(c, nil)
	if settings {
		_ = framer.WriteSettings()
	}
	_ = framer.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, []byte("too_many_pings"))
}

// A front end refuses connections after the TLS handshake. The reason is the same in each Get that waits, in the line
// that an outage began, and in the Cause of the Gate.
func TestRefusedConnection(t *testing.T) {
	for name, test := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testRefusedConnection(t, refusingServer(t, cmp.Or(test.config, &tls.Config{}), test.do), test.want)
		})
	}
}

func testRefusedConnection(t *testing.T, config *rest.Config, want string) {
	const objects = 10
	gate := reflector.NewGate(reflector.GateOptions{})
	store := newStore[*corev1.Secret](t, secretsOf(t, config)["REST"], objectcache.WatchOptions{Gate: gate})
	var mu sync.Mutex
	var lines []string
	logger := funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}, funcr.Options{})
	defer runStore(klog.NewContext(t.Context(), logger), t, store)()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	failed := make(chan error)
	for i := range objects {
		name := fmt.Sprint("tls-", i)
		store.AddReference(namespace, name, types.UID("owner"))
		go func() {
			_, err := store.Get(ctx, namespace, name)
			failed <- err
		}()
	}
	began := func() string {
		mu.Lock()
		defer mu.Unlock()
		for _, line := range lines {
			if strings.Contains(line, "Outage began") {
				return line
			}
		}
		return ""
	}
	known := func() bool { // by each object
		for i := range objects {
			if status, ok := store.Status(namespace, fmt.Sprint("tls-", i)); !ok || status.LastError == nil {
				return false
			}
		}
		return true
	}
	for (gate.Status().Cause == nil || began() == "" || !known()) && ctx.Err() == nil {
		runtime.Gosched()
	}
	says := func(text string) bool { // net/http has a reason of its own for some lists, which says less
		return strings.Contains(text, want) || strings.Contains(text, "http2: client conn could not be established")
	}
	if cause := fmt.Sprint(gate.Status().Cause); !says(cause) {
		t.Errorf("Cause: got %s, want %q in it", cause, want)
	}
	if line := strings.ReplaceAll(began(), `\"`, `"`); !says(line) {
		t.Errorf("log: got %s, want %q in it", line, want)
	}
	cancel()
	reasons := 0
	for range objects {
		text := (<-failed).Error()
		switch named := strings.Contains(text, `Get "`) || strings.Contains(text, "no reflector reaches the server"); {
		case says(text):
			reasons++
		case named: // else its first request was under way
			t.Errorf("Get: got %s, want %q in it", text, want)
		}
	}
	if reasons < objects/2 {
		t.Errorf("Get: got %d errors with the reason, want most of %d", reasons, objects)
	}
}

// refusingServer returns a config for a server of HTTP/2 that does something with each connection after the handshake,
// and closes it.
func refusingServer(t *testing.T, config *tls.Config, do func(*tls.Conn)) *rest.Config {
	certified := newTLSServer(t, nil, answersCode(500)) // has a certificate for this host
	config = config.Clone()
	config.Certificates, config.NextProtos = certified.TLS.Certificates, []string{"h2"}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			accepted, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				c := tls.Server(accepted, config)
				defer func() { _ = c.NetConn().Close() }()
				if c.Handshake() == nil && do != nil {
					_, _ = io.ReadFull(c, make([]byte, len(http2.ClientPreface)))
					do(c)
				}
				_ = c.NetConn().(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, c.NetConn()) // so that the client reads what was sent
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	return &rest.Config{Host: "https://" + listener.Addr().String(), TLSClientConfig: rest.TLSClientConfig{CAData: caOf(certified)}}
}
