// SPDX-License-Identifier: Apache-2.0

// Package network injects faults into the connections of a client.
//
// A [Network] dials for a client: its [Network.Dial] is the Dial of a rest.Config. It counts dials and open
// connections:
//
//	faults := network.New(config.Dial)
//	config.Dial = faults.Dial
//
// [Network.OnDial] decides what happens to a dial: a backend that refuses connections, lets them hang, or closes them.
// [Network.OnConnect] is called with each new [Conn], and [Network.Each] with those that are open. A Conn can be reset,
// at once or after some bytes, ended, frozen, which makes it half open, or slowed down.
//
// It works with TCP and with net.Pipe, so also in virtual time: in a bubble of testing/synctest, in front of an
// [apiserver.Server] with Options.InMemory. The bytes are those below TLS.
//
// [apiserver.Server]: https://pkg.go.dev/github.com/refwatch/refwatch/test/apiserver#Server
package network
