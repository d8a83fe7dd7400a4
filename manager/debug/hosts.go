// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// checkHost returns an error for a request that a foreign page may have sent. A page whose name was made to point to a
// loopback address (DNS rebinding) is of the same origin for a browser, and could read what is served there. The Host
// header then has the name of that page.
func (o Options) checkHost(r *http.Request) error {
	if len(o.AllowedHosts) == 0 && !isServedOnLoopback(r) {
		return nil // authentication is the task of the server there: see the package's documentation
	}
	name := hostname(r.Host)
	if strings.EqualFold(name, "localhost") || isLoopback(name) ||
		slices.ContainsFunc(o.AllowedHosts, func(allowed string) bool { return strings.EqualFold(name, hostname(allowed)) }) {
		return nil
	}
	return fmt.Errorf("the host %q is not allowed: ask for localhost or a loopback address, or add the host to debug.Options.AllowedHosts", r.Host)
}

// isServedOnLoopback reports whether the connection of a request has ended at a loopback address.
func isServedOnLoopback(r *http.Request) bool {
	address, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && isLoopback(hostname(address.String()))
}

func isLoopback(text string) bool {
	address, err := netip.ParseAddr(text)
	return err == nil && address.Unmap().IsLoopback()
}

// hostname returns a host without its port, brackets and the dot at its end.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), ".")
}

// checkAllowedHost returns an error for a host that no request can have.
func checkAllowedHost(host string) error {
	if _, err := netip.ParseAddr(host); err != nil && (host == "" || strings.ContainsAny(host, ":/*[] ")) {
		return fmt.Errorf("new debug handler: the allowed host %q is not a name or address: give one without scheme, port and wildcard", host)
	}
	return nil
}
