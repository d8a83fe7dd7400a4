// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"fmt"
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
// With -model.runs the server is also one without WatchList.
func TestVerbs(t *testing.T) {
	testmain.Long(t)
	allSettings, more := []string{"with rest-widgets"}, ""
	if *runs > 1 {
		allSettings, more = append(allSettings, "with no-watchlist"), "sleep 1800000"
	}
	for _, f := range model.Catalog() {
		if !f.OfVerbs() {
			continue
		}
		args := map[model.Scope]string{model.OfServer: "", model.OfKind: " 0", model.OfObjects: " 0 1 2 6 7 8"}[f.Scope]
		t.Run(f.Name, func(t *testing.T) {
			for _, settings := range allSettings {
				s, err := model.Parse(fmt.Sprintf(lasting, settings, "inject "+f.Name+args, more))
				if err != nil {
					t.Fatal(err)
				}
				result := s.Run(t, model.Options{})
				if failure := result.Failure(); failure != "" {
					t.Errorf("%s\n%s", failure, s)
				}
				if settings == allSettings[0] && (result.Reached == 0 || result.Decided["L6"] == 0) {
					t.Errorf("the fault reached a subject %d times, and L6 was decided %d times, want more", result.Reached, result.Decided["L6"])
				}
			}
		})
	}
}
