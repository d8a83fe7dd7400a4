// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func newClientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestAuthentication(t *testing.T) {
	for name, options := range map[string]Options{"tls": {}, "memory": {InMemory: true}} {
		t.Run(name, func(t *testing.T) {
			s := New(t, options)
			for _, token := range []string{"", "wrong", s.options.Token + "x"} {
				config := s.Config()
				config.BearerToken = token
				_, err := newClientFor(t, config).CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
				if !apierrors.IsUnauthorized(err) {
					t.Errorf("got %v with token %q, want Unauthorized", err, token)
				}
			}
			if _, err := s.Client().CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Errorf("got %v with the right token", err)
			}
		})
	}
}

// Nobody is served who does not trust the server's own CA.
func TestCertificateIsChecked(t *testing.T) {
	s, other := New(t, Options{}), New(t, Options{})
	config := s.Config()
	config.CAData = other.Config().CAData
	if _, err := newClientFor(t, config).CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("got an answer with another server's CA, want an error")
	}
}

func TestConfigIsACopy(t *testing.T) {
	s := New(t, Options{Token: "known"})
	config := s.Config()
	if config.BearerToken != "known" || config.Host != s.URL() {
		t.Errorf("got token %q and host %q, want known and %s", config.BearerToken, config.Host, s.URL())
	}
	config.BearerToken, config.Host = "", ""
	if again := s.Config(); again.BearerToken != "known" || again.Host == "" {
		t.Error("a change to one configuration shows in the next")
	}
	if s.Client() != s.Client() {
		t.Error("got two clientsets, want one and the same")
	}
}

func TestProtocols(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		want    string
	}{
		"default":  {Options{}, "HTTP/2.0"},
		"disabled": {Options{DisableHTTP2: true}, "HTTP/1.1"},
		"memory":   {Options{InMemory: true}, "HTTP/1.1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, test.options)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL()+"/healthz", nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := f.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			if res.Proto != test.want {
				t.Errorf("got %s, want %s", res.Proto, test.want)
			}
		})
	}
}

func TestWriteKubeconfig(t *testing.T) {
	s := New(t, Options{})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, nil, 0o644); err != nil { // an old one, readable by all
		t.Fatal(err)
	}
	if err := s.WriteKubeconfig(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newClientFor(t, config).CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("got %v with the kubeconfig", err)
	}
	if err := s.WriteKubeconfig(filepath.Join(path, "below")); err == nil {
		t.Error("got no error for a path that cannot be written")
	}
	if err := New(t, Options{InMemory: true}).WriteKubeconfig(path); err == nil {
		t.Error("got a kubeconfig for a server in memory, want an error")
	}
}
