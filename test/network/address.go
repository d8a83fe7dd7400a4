// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Linux gives connections ports from 32768 on, other systems from 49152 on.
const firstPort, portsEnd = 20_000, 32_768

// FreeAddress returns a loopback address on which nothing listens, for a program that is told where to listen. The
// kernel gives its port to no connection meanwhile, unlike that of a listener on port 0.
func FreeAddress() (string, error) {
	var err error
	for range 100 {
		var listener net.Listener
		if listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(portsEnd-firstPort))); err == nil {
			return listener.Addr().String(), listener.Close()
		}
	}
	return "", fmt.Errorf("no free port below %d: %w", portsEnd, err)
}
