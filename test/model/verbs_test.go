// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"fmt"
	"testing"

	"github.com/refwatch/refwatch/test/model"
	"github.com/refwatch/refwatch/test/testmain"
)

// lasting lets a fault of verbs last until each bound of L6 is over: for objects that were known, for new ones, and for
// Gets that wait. An hour passes between the writes, in which other verbs are tried again.
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
sleep 1900000
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
func TestVerbs(t *testing.T) {
	testmain.Long(t)
	for _, f := range model.Catalog() {
		if !f.OfVerbs() {
			continue
		}
		args := map[model.Scope]string{model.OfServer: "", model.OfKind: " 0", model.OfObjects: " 0 1 2 6 7 8"}[f.Scope]
		t.Run(f.Name, func(t *testing.T) {
			for _, settings := range []string{"with rest-widgets", "with no-watchlist"} {
				s, err := model.Parse(fmt.Sprintf(lasting, settings, "inject "+f.Name+args))
				if err != nil {
					t.Fatal(err)
				}
				result := s.Run(t, model.Options{})
				if failure := result.Failure(); failure != "" {
					t.Errorf("%s\n%s", failure, s)
				}
				if settings == "with rest-widgets" && result.Decided["L6"] == 0 {
					t.Error("L6 was decided 0 times, want more")
				}
			}
		})
	}
}
