// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"
)

func TestPage(t *testing.T) {
	rows := []row{
		{target: target{"cache", "FuzzOrder"}, inputs: 3, ran: 1, all: 3, reached: 1, ofTarget: 1},
		{target: target{"manager", "FuzzVisitPod"}, inputs: 4},
	}
	got := pageOf(rows, "abc1234", time.Date(2026, 1, 31, 23, 0, 0, 0, time.UTC))
	for _, want := range []string{
		"on 2026-01-31 at commit abc1234.", "| cache | `FuzzOrder` | 3 | 33 % | 100 % |\n",
		"| manager | `FuzzVisitPod` | 4 | 0 % | 0 % |\n", "\n2 targets, 7 inputs.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got no %q in:\n%s", want, got)
		}
	}
}
