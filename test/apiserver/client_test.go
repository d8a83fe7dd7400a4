// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

func TestAuthentication(t *testing.T) {
	for name, options := range map[string]Options{"tls": {}, "memory": {InMemory: true}, "memory, tls": {InMemory: true, TLS: true}} {
		t.Run(name, func(t *testing.T) {
			s := New(t, options)
			for _, token := range []string{"", "wrong", s.options.Token + "x"} {
				config := s.Config()
				config.BearerToken = token
				_, err := newClientFor(t, config).CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
				if !apierrors.IsUnauthorized(err) {
					t.Errorf("token %q: got %v, want Unauthorized", token, err)
				}
			}
			if _, err := s.Client().CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Errorf("the right token: got %v, want no error", err)
			}
		})
	}
}

func TestConfigIsACopy(t *testing.T) {
	s := New(t, Options{Token: "secret"})
	config := s.Config()
	if config.BearerToken != "secret" || config.Host != s.URL() {
		t.Errorf("got token %q and host %q, want secret and %s", config.BearerToken, config.Host, s.URL())
	}
	config.BearerToken, config.Host = "", ""
	if again := s.Config(); again.BearerToken != "secret" || again.Host == "" {
		t.Error("got a changed configuration, want a new one from every call")
	}
	if s.Client() != s.Client() {
		t.Error("got two clientsets, want the same one")
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

		"memory, TLS":           {Options{InMemory: true, TLS: true}, "HTTP/2.0"},
		"memory, TLS, disabled": {Options{InMemory: true, TLS: true, DisableHTTP2: true}, "HTTP/1.1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, test.options)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL()+"/healthz", nil)
			check(t, err)
			res, err := f.http.Do(req)
			check(t, err)
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
	if err := os.WriteFile(path, nil, 0o644); err != nil { // an existing file, readable by all
		t.Fatal(err)
	}
	check(t, s.WriteKubeconfig(path))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	check(t, err)
	if _, err := newClientFor(t, config).CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("list with the kubeconfig: got %v, want no error", err)
	}
	if err := s.WriteKubeconfig(filepath.Join(path, "child")); err == nil {
		t.Error("path below a file: got no error, want one")
	}
	if err := New(t, Options{InMemory: true}).WriteKubeconfig(path); err == nil {
		t.Error("server in memory: got no error, want one")
	}
}
