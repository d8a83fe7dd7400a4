// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// TestGoAway checks that requests take another connection after a GOAWAY, that watches go on, and that their connection
// is closed after the last one.
func TestGoAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{InMemory: true, TLS: true})
		network := f.throughNetwork()
		w := f.watchSecrets(named("s3", watchList()))
		expect(t, w, watch.Bookmark)
		for i := range 4 {
			f.createSecret(newSecret(fmt.Sprint("s", i)))
			if got := network.Counts().Dials; got != i+1 {
				t.Errorf("after %d GOAWAYs: got %d dials, want %d", i, got, i+1)
			}
			f.GoAway()
			synctest.Wait()
		}
		expect(t, w, watch.Added)
		time.Sleep(2 * time.Second) // net/http closes a connection without requests a second after its GOAWAY
		if got := network.Counts().Open; got != 1 {
			t.Errorf("got %d open connections, want that of the watch", got)
		}
		w.Stop()
		time.Sleep(2 * time.Second)
		if got := network.Counts().Open; got != 0 {
			t.Errorf("without a watch: got %d open connections, want none", got)
		}
		f.Close()
		f.GoAway() // does nothing
	})
}

// TestGoAwayFailsNothing checks that no request fails because of a GOAWAY. Over HTTP/1.1 one may, as with every server.
func TestGoAwayFailsNothing(t *testing.T) {
	for name, options := range map[string]Options{"socket": {}, "memory": {InMemory: true, TLS: true}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options)
			w := f.watchSecrets(metav1.ListOptions{ResourceVersion: f.ResourceVersion()})
			for i := range 10 {
				f.GoAway()
				f.createSecret(newSecret(fmt.Sprint("s", i)))
				expect(t, w, watch.Added)
			}
		})
	}
}

// TestRotate checks which clients can connect after a new certificate, and after a new CA, and that open connections
// stay.
func TestRotate(t *testing.T) {
	t.Run("socket", func(t *testing.T) { testRotate(t, Options{}) })
	t.Run("memory", func(t *testing.T) {
		// Over a pipe, a client that refuses a certificate waits five seconds for the server to read that.
		synctest.Test(t, func(t *testing.T) { testRotate(t, Options{InMemory: true, TLS: true}) })
	})
	plain := newFixture(t, Options{InMemory: true})
	if plain.RotateCertificate() == nil || plain.RotateCA() == nil {
		t.Error("without TLS: got no error, want one")
	}
}

func testRotate(t *testing.T, options Options) {
	f := newFixture(t, options)
	before := f.Config()
	f.createSecret(newSecret("a"))
	connects := func(config *rest.Config) error {
		config = rest.CopyConfig(config)
		config.DisableCompression = true // a connection of its own
		client := newClientFor(t, config)
		f.GoAway() // no earlier client's connection is used again
		_, err := client.CoreV1().Secrets("default").Get(t.Context(), "a", metav1.GetOptions{})
		return err
	}
	certificate := func() string { return string(f.tls.server.Certificate[0]) }
	first := certificate()
	if err := f.RotateCertificate(); err != nil || certificate() == first {
		t.Errorf("RotateCertificate: got %v and the same certificate: %v", err, certificate() == first)
	}
	if err := connects(before); err != nil {
		t.Errorf("after a new certificate: got %v, want no error", err)
	}
	w := f.watchSecrets(named("b", watchList()))
	expect(t, w, watch.Bookmark)
	check(t, f.RotateCA())
	if err := connects(f.Config()); err != nil {
		t.Errorf("after a new CA, with that CA: got %v, want no error", err)
	}
	if err := connects(before); err == nil {
		t.Error("after a new CA, with the old CA: got no error, want one")
	}
	f.Send(nil, watch.Event{Type: watch.Added, Object: typed(newSecret("b"))})
	expect(t, w, watch.Added)
}
