// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"time"

	"github.com/refwatch/refwatch/test/e2e"
	"github.com/refwatch/refwatch/test/soak"
)

func (p *controlPlane) proxies() []*e2e.Proxy { return []*e2e.Proxy{p.cluster.Proxy, p.replica.Proxy} }

// loseConnections makes all connections to one server half open: they stay open at both ends and transmit nothing. New
// connections work.
func (p *controlPlane) loseConnections(ctx context.Context, load *soak.Load) error {
	proxy := p.proxies()[rand.IntN(2)]
	load.Count(halfOpened, proxy.Connections())
	proxy.BlackHole(true)
	proxy.BlackHole(false)
	load.Cleanup(proxy.Cut) // the server has not noticed it
	hold(ctx, down)
	return nil
}

// cut cuts the connections to a random server every 0 to 300 ms.
func (p *controlPlane) cut(ctx context.Context, load *soak.Load) error {
	for end := time.Now().Add(down); time.Now().Before(end); {
		p.proxies()[rand.IntN(2)].Cut()
		load.Count("cuts of all connections to a server", 1)
		hold(ctx, time.Duration(rand.Int64N(int64(300*time.Millisecond))))
	}
	return nil
}

// slow delays and throttles the network, and cuts all connections.
func (p *controlPlane) slow(ctx context.Context, load *soak.Load) error {
	for _, proxy := range p.proxies() {
		proxy.Delay(100 * time.Millisecond)
		proxy.Throttle(100 << 10)
	}
	load.Cut()
	hold(ctx, paused)
	for _, proxy := range p.proxies() {
		proxy.Reset()
	}
	return nil
}

// suspend stops this process, as if the machine of the client were suspended.
func (p *controlPlane) suspend(ctx context.Context, _ *soak.Load) error {
	script := fmt.Sprintf("kill -STOP %[1]d; sleep %[2]v; kill -CONT %[1]d", os.Getpid(), paused.Seconds())
	return exec.CommandContext(ctx, "/bin/sh", "-c", script).Run()
}
