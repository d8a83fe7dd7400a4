// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"math"
	"testing"

	"golang.org/x/net/http2"
)

// SETTINGS with values out of range, and those that a client must accept
// (RFC 9113, section 6.5.2).
func TestFaultSettings(t *testing.T) {
	set := func(id http2.SettingID, value uint32) func(*exchange, uint32) {
		return func(e *exchange, _ uint32) { e.settings(http2.Setting{ID: id, Val: value}) }
	}
	runFaults(t, states["open"], map[string]fault{
		"push":                   {set(http2.SettingEnablePush, 1), "C.PROTOCOL/-"},
		"no push":                {set(http2.SettingEnablePush, 0), "-"},
		"push neither on or off": {set(http2.SettingEnablePush, 2), "C.PROTOCOL"},
		"frame size too small":   {set(http2.SettingMaxFrameSize, 16<<10-1), "C.PROTOCOL"},
		"frame size 0":           {set(http2.SettingMaxFrameSize, 0), "C.PROTOCOL"},
		"frame size too large":   {set(http2.SettingMaxFrameSize, 1<<24), "C.PROTOCOL"},
		"largest frame size":     {set(http2.SettingMaxFrameSize, 1<<24-1), "-"},
		"window too large":       {set(http2.SettingInitialWindowSize, math.MaxInt32+1), "C.FLOW_CONTROL"},
		"largest window":         {set(http2.SettingInitialWindowSize, math.MaxInt32), "-"},
		"window 0":               {set(http2.SettingInitialWindowSize, 0), "-"},
		"streams 0":              {set(http2.SettingMaxConcurrentStreams, 0), "-"},
		"streams 1":              {set(http2.SettingMaxConcurrentStreams, 1), "-"},
		"streams 2^32-1":         {set(http2.SettingMaxConcurrentStreams, math.MaxUint32), "-"},
		"header table 0":         {set(http2.SettingHeaderTableSize, 0), "-"},
		"header table 2^32-1":    {set(http2.SettingHeaderTableSize, math.MaxUint32), "-"},
		"header list 0":          {set(http2.SettingMaxHeaderListSize, 0), "-"},
		"unknown":                {set(0xffff, 7), "-"},
		"a setting twice": {func(e *exchange, _ uint32) {
			e.settings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0},
				http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 100})
		}, "-"},
		// The window of a stream is 65535 + 2^31-1-65535 = 2^31-1, and grows by one.
		"windows that overflow": {func(e *exchange, id uint32) {
			e.window(id, math.MaxInt32-65535)
			e.settings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 65536})
		}, "C.FLOW_CONTROL/-"},
	})
}

// Every SETTINGS is acknowledged, in order.
func TestFaultSettingsAcknowledged(t *testing.T) {
	forEachClient(t, func(t *testing.T, kind clientKind) {
		e := newExchange(t, kind)
		acks := func() int {
			return len(e.frames(func(f frame) bool { return f.Type == http2.FrameSettings && f.Flags.Has(http2.FlagSettingsAck) }))
		}
		if got, want := acks(), 1; got != want {
			t.Fatalf("got %d acks for the first SETTINGS, want %d", got, want)
		}
		e.together(func() {
			e.settings()
			e.settings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 15})
		})
		if got, want := acks(), 3; got != want {
			t.Errorf("got %d acks, want %d", got, want)
		}
	})
}

// free reports whether the connection has a slot, and leaves it free.
func (e *exchange) free() bool {
	if !e.client.reserve() {
		return false
	}
	e.client.release()
	return true
}

// With HEADER_TABLE_SIZE 0 requests do not use the dynamic table, and the first one
// after the change says so (RFC 7541, section 4.2).
func TestFaultHeaderTableShrinks(t *testing.T) {
	forEachClient(t, func(t *testing.T, kind clientKind) {
		e := newExchange(t, kind)
		e.open("/a")
		e.settings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
		e.wait()
		e.decoder.SetMaxDynamicTableSize(0)
		e.decoder.SetAllowedMaxDynamicTableSize(0)
		e.open("/b")
		e.open("/b")
		e.settings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 4096})
		e.wait()
		e.decoder.SetAllowedMaxDynamicTableSize(4096)
		e.open("/c")
		e.open("/c")
	})
}
