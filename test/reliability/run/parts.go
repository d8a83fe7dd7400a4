// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"strings"
)

// part is a make target that counts something.
type part struct {
	name  string
	args  []string // of make
	waits bool     // it mostly waits, and so runs beside others
}

// parts are the same target some times.
type parts struct {
	name  string
	args  string // %d is the number of the part, %[2]d how many there are
	times int
	waits bool
}

// atScale are the faults of all objects at once, with 10,000 references: a run takes a minute and 2 GB.
const atScale = "MATRIX_PAIRS=-1 MATRIX_SCALE=10000 MATRIX_FAULTS=rollback,rollback-to-the-same-versions,connection-refused," +
	"dials-hang,etcd-down-streams-closed,throttled-streams-closed,token-expired-streams-closed"

// night reaches the goals of the page.
var night = []parts{
	{name: "soak", args: "soak", times: 4, waits: true},
	{name: "chaos", args: "chaos CHAOS_ROUNDS=2", times: 4, waits: true},
	{name: "model", args: "model MODEL=25000", times: 4},
	{name: "operators", args: "patterns PATTERNS=400", times: 1},
	{name: "matrix", args: "matrix MATRIX_RUNS=90 MATRIX_PAIRS=1", times: 6},
	{name: "matrix-1000", args: "matrix MATRIX_RUNS=3 MATRIX_PAIRS=-1 MATRIX_SCALE=1000", times: 1},
	{name: "matrix-10000", args: "matrix MATRIX_RUNS=3 " + atScale, times: 1},
	{name: "kubelet", args: "matrix-of-kubelet MATRIX_RUNS=3", times: 1},
	{name: "secrecy", args: "secrecy", times: 1},
	{name: "fuzz", args: "fuzz FUZZTIME=125000x", times: 3},
	{name: "mutants", args: "mutants MUTANTS_PART=%d/%[2]d", times: 24},
}

// anHour has each kind once.
var anHour = []parts{
	{name: "chaos", args: "chaos", times: 1, waits: true},
	{name: "soak", args: "soak SOAK_RACE=1m", times: 1, waits: true},
	{name: "model", args: "model MODEL=25000", times: 1},
	{name: "operators", args: "patterns PATTERNS=40", times: 1},
	{name: "matrix", args: "matrix MATRIX_RUNS=100 MATRIX_PAIRS=1", times: 1},
	{name: "matrix-1000", args: "matrix MATRIX_RUNS=1 MATRIX_PAIRS=-1 MATRIX_SCALE=1000", times: 1},
	{name: "matrix-10000", args: "matrix MATRIX_RUNS=1 " + atScale, times: 1},
	{name: "kubelet", args: "matrix-of-kubelet MATRIX_RUNS=1", times: 1},
	{name: "secrecy", args: "secrecy", times: 1},
	{name: "fuzz", args: "fuzz FUZZTIME=100000x", times: 1},
	{name: "mutants", args: "mutants", times: 1},
}

// expand returns each part whose name begins with a text.
func expand(all []parts, prefix string) (expanded []part) {
	for _, ps := range all {
		for i := range ps.times {
			args := ps.args
			if strings.Contains(args, "%") {
				args = fmt.Sprintf(args, i+1, ps.times)
			}
			name := fmt.Sprintf("%s-%dof%d", ps.name, i+1, ps.times)
			if strings.HasPrefix(name, prefix) {
				expanded = append(expanded, part{name: name, args: strings.Fields(args), waits: ps.waits})
			}
		}
	}
	return expanded
}
