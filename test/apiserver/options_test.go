// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOptionsDefaults(t *testing.T) {
	got, err := Options{}.withDefaults()
	check(t, err)
	if len(got.Token) < 20 {
		t.Errorf("got token %q, want at least 20 characters", got.Token)
	}
	other, _ := Options{}.withDefaults()
	if other.Token == got.Token {
		t.Error("got the same random token twice")
	}
	got.Token = ""
	want := Options{MaxStreamsPerConnection: 100, BookmarkInterval: time.Minute, HistoryLimit: 10_000, WatchBuffer: 1_000}
	if !cmp.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestOptionsOutOfRange(t *testing.T) {
	for name, options := range map[string]Options{
		"streams":  {MaxStreamsPerConnection: -1},
		"bookmark": {BookmarkInterval: -1},
		"history":  {HistoryLimit: -1},
		"buffer":   {WatchBuffer: -1},
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := Start(options); err == nil {
				s.Close()
				t.Errorf("Start with %+v: got no error, want one", options)
			}
		})
	}
}
