// SPDX-License-Identifier: Apache-2.0

package reflector

import "time"

const (
	// silentAfter is how long a stream may bring nothing, not even a bookmark,
	// before it is verified. kube-apiserver sends a bookmark about once a minute.
	silentAfter = 2 * time.Minute
	// silenceCheck is how often a gate looks for silent streams: one look at all
	// of them costs less than a timer for each.
	silenceCheck = 30 * time.Second
)

// follow has the silence of a reflector's stream watched.
func (g *Gate) follow(r *Reflector) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.streams[r] = struct{}{}
	if len(g.streams) > 1 {
		return
	}
	if g.watch != nil {
		g.watch.Reset(silenceCheck)
		return
	}
	g.watch = time.AfterFunc(silenceCheck, g.checkSilence)
}

// unfollow ends what follow has begun.
func (g *Gate) unfollow(r *Reflector) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.streams, r)
	if len(g.streams) == 0 && g.watch != nil {
		g.watch.Stop()
	}
}

func (g *Gate) checkSilence() {
	g.mu.Lock()
	if len(g.streams) == 0 {
		g.mu.Unlock()
		return
	}
	all := make([]*Reflector, 0, len(g.streams))
	for r := range g.streams {
		all = append(all, r)
	}
	g.watch.Reset(silenceCheck)
	g.mu.Unlock()
	for _, r := range all {
		r.verifyIfSilent()
	}
}
