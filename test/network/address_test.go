// SPDX-License-Identifier: Apache-2.0

package network_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/refwatch/refwatch/test/network"
)

// A program can listen on a free address, and no connection has taken its port.
func TestFreeAddress(t *testing.T) {
	for range 10 {
		address, err := network.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		if port := netip.MustParseAddrPort(address).Port(); port >= 32768 {
			t.Errorf("port %d: the kernel gives it to connections", port)
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Error(err)
			continue
		}
		_ = listener.Close()
	}
}
