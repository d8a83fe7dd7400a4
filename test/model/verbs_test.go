// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/refwatch/refwatch/test/model"
	"github.com/refwatch/refwatch/test/testmain"
)

// lasting lets a fault of verbs last until each bound of L6 is over: for objects that were known, for new ones, and for
// Gets that wait. Then time passes in which other verbs are tried again: half an hour, and with -model.runs another
// one.
const lasting = `
%s
put 0
put 1
put 2
put 6
register 0 0 1 2
sleep 5000
follow
%s
put 0
put 1
put 2
register 2 6 7 8
get 6 70000
get 8 70000
put 8
sleep 196000
try 0
try 1
try 2
try 6
put 0
put 1
put 2
live 0 70000
live 1 70000
sleep 196000
try 0
try 1
try 2
try 6
try 8
unfollow 0
sleep 700000
put 0
live 0 70000
sleep 700000
live 1 70000
newest 0 70000
sleep 100000
%s
put 0
put 1
put 2
live 2 70000
sleep 196000
try 0
try 1
try 2
`

// Beside each fault of verbs that leaves one, all is fresh and each Get is answered, as long as the fault lasts: L6.
// With -model.runs the server is also one without WatchList, and three verbs fail, each in its own way, in all ways.
func TestVerbs(t *testing.T) {
	testmain.Long(t)
	allSettings, more := []string{"with rest-widgets"}, ""
	if *runs > 1 {
		allSettings, more = append(allSettings, "with no-watchlist"), "sleep 1800000"
	}
	faults, err := faultsNamed(*only)
	if err != nil {
		t.Fatal(err)
	}
	if *only == "" {
		faults = append(faults, someTriples()...)
	}
	for _, f := range faults {
		if !f.OfVerbs() {
			continue
		}
		isTriple := strings.Contains(f.Name, "+")
		t.Run(f.Name, func(t *testing.T) {
			for i, settings := range allSettings {
				if isTriple && i > 0 {
					continue // there are many
				}
				result := runLasting(t, f, settings, more)
				if i == 0 && (result.Reached == 0 && !isTriple || result.Decided["L6"] == 0) {
					t.Errorf("the fault reached a subject %d times, and L6 was decided %d times, want more", result.Reached, result.Decided["L6"])
				}
			}
		})
	}
}

// someTriples returns all triples, or without -model.runs a few: others for each -model.seed.
func someTriples() (some []model.Fault) {
	all := model.Triples()
	if *runs > 1 {
		return all
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	for range 8 {
		some = append(some, all[random.IntN(len(all))])
	}
	return some
}

func runLasting(t *testing.T, f model.Fault, settings, more string) model.Result {
	t.Helper()
	args := map[model.Scope]string{model.OfServer: "", model.OfKind: " 0", model.OfObjects: " 0 1 2 6 7 8"}[f.Scope]
	s, err := model.Parse(fmt.Sprintf(lasting, settings, "inject "+f.Name+args, more))
	if err != nil {
		t.Fatal(err)
	}
	result := s.Run(t, model.Options{})
	if failure := result.Failure(); failure != "" {
		t.Errorf("%s\n%s", failure, s)
	}
	return result
}
