// SPDX-License-Identifier: Apache-2.0

package debug_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/refwatch/refwatch/manager/debug"
	"github.com/refwatch/refwatch/objectcache"
)

// On a loopback address the page answers for localhost and loopback addresses, and for the hosts of the options. A page
// of another name could be one of an attacker, whose name points to 127.0.0.1 (DNS rebinding). On other addresses it
// answers for all hosts, unless the options name some.
func TestHost(t *testing.T) {
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	loopback6 := &net.TCPAddr{IP: net.IPv6loopback, Port: 8080}
	pod := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 8080}
	tests := map[string]struct {
		served  net.Addr
		host    string
		allowed []string
		want    bool
	}{
		"localhost":                       {loopback, "localhost:8080", nil, true},
		"localhost, another port":         {loopback, "localhost:30001", nil, true}, // kubectl port-forward
		"localhost without a port":        {loopback, "LocalHost.", nil, true},
		"127.0.0.1":                       {loopback, "127.0.0.1:8080", nil, true},
		"127.1.2.3":                       {loopback, "127.1.2.3", nil, true},
		"::1":                             {loopback6, "[::1]:8080", nil, true},
		"::1 without a port":              {loopback6, "[::1]", nil, true},
		"::ffff:127.0.0.1":                {loopback6, "[::ffff:127.0.0.1]:1", nil, true},
		"a name":                          {loopback, "attacker.example:8080", nil, false},
		"a name, IPv6":                    {loopback6, "attacker.example", nil, false},
		"a name with localhost in it":     {loopback, "localhost.attacker.example", nil, false},
		"a name that begins as localhost": {loopback, "127.0.0.1.attacker.example", nil, false},
		"another address":                 {loopback, "10.0.0.7:8080", nil, false},
		"all addresses":                   {loopback, "0.0.0.0:8080", nil, false},
		"no host":                         {loopback, "", nil, false},
		"an allowed name":                 {loopback, "Debug.example:443", []string{"debug.example"}, true},
		"an allowed address":              {loopback, "[fd00::1]:443", []string{"fd00::1"}, true},
		"localhost beside an allowed one": {loopback, "localhost", []string{"debug.example"}, true},
		"not the allowed name":            {loopback, "debug.example.attacker.example", []string{"debug.example"}, false},
		"a pod's address":                 {pod, "10.0.0.7:8080", nil, true},
		"a pod's name":                    {pod, "web.example", nil, true},
		"a pod, not the allowed name":     {pod, "web.example", []string{"debug.example"}, false},
		"a pod, the allowed name":         {pod, "debug.example", []string{"debug.example"}, true},
		"a socket":                        {&net.UnixAddr{Name: "/run/debug", Net: "unix"}, "any", nil, true},
		"no server":                       {nil, "any", nil, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			handler := newHandler(t, debug.Options{AllowedHosts: test.allowed})
			request := httptest.NewRequest(http.MethodGet, "/", nil)
			request.Host = test.host
			if test.served != nil {
				request = request.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, test.served))
			}
			for _, query := range []string{"", "?format=json", "?format=roles", "?sort=unknown"} {
				request.URL.RawQuery = strings.TrimPrefix(query, "?")
				response := httptest.NewRecorder()
				handler.ServeHTTP(response, request)
				if got := response.Code != http.StatusForbidden; got != test.want {
					t.Errorf("%q: got status %d, want that it is allowed: %v", query, response.Code, test.want)
				}
				if text := response.Body.String(); !test.want && !strings.Contains(text, "debug.Options.AllowedHosts") {
					t.Errorf("%q: got %q, want a text that says what to do", query, text)
				}
			}
		})
	}
}

// A real server on a loopback address passes what the check needs.
func TestHostOfAServer(t *testing.T) {
	server := httptest.NewServer(secrets(t, object("tls", objectcache.PhaseServing)))
	defer server.Close()
	for host, want := range map[string]int{"": http.StatusOK, "attacker.example": http.StatusForbidden} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if _ = response.Body.Close(); response.StatusCode != want {
			t.Errorf("host %q: got status %d, want %d", host, response.StatusCode, want)
		}
	}
}

// A host that no request can have is an error.
func TestAllowedHostErrors(t *testing.T) {
	for host, valid := range map[string]bool{
		"debug.example": true, "10.0.0.7": true, "fd00::1": true,
		"": false, "debug.example:443": false, "https://debug.example": false, "*.example": false, "[fd00::1]": false,
	} {
		_, err := debug.NewHandler(debug.Options{AllowedHosts: []string{host}})
		if (err == nil) != valid || err != nil && !strings.Contains(err.Error(), "give one without scheme, port and wildcard") {
			t.Errorf("%q: got %v, want that it is valid: %v", host, err, valid)
		}
	}
}
