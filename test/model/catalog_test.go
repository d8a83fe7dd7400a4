// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"fmt"
	"testing"

	"github.com/refwatch/refwatch/test/model"
	"github.com/refwatch/refwatch/test/testmain"
)

// reaching makes each fault of the catalog meet a subject: reads, writes and time before, during and after it.
const reaching = `
%s
put 0
put 1
put 2
register 0 0 1 2
sleep 1000
follow
%s
put 0
put 1
put 2
register 2 2 3
inject streams-closed
sleep 100
put 0
put 1
put 2
sleep 20000
try 0
try 1
try 2
sleep 61000
`

// Each fault of the catalog changes something for a subject, and breaks no promise, whether the subject reads with a
// WatchList, with lists, or for a Get only, and whether a function of the program gets each object. TestVerbs does that
// for the faults of verbs.
func TestCatalog(t *testing.T) {
	testmain.Long(t)
	for _, f := range model.Catalog() {
		if f.OfVerbs() {
			continue
		}
		args := map[model.Scope]string{model.OfServer: "", model.OfKind: " 0", model.OfObjects: " 0 1 2", model.OfOneServer: " 0"}[f.Scope]
		t.Run(fmt.Sprintf("%d %s", f.Class, f.Name), func(t *testing.T) {
			reached := int64(0)
			for _, settings := range []string{"", "with no-watchlist", "with transform", "with ttl 1000", "with direct"} {
				s, err := model.Parse(fmt.Sprintf(reaching, settings, "inject "+f.Name+args))
				if err != nil {
					t.Fatal(err)
				}
				result := s.Run(t, model.Options{})
				if failure := result.Failure(); failure != "" {
					t.Errorf("%s\n%s", failure, s)
				}
				reached += result.Reached
			}
			if reached == 0 {
				t.Error("the fault did not reach a subject")
			}
		})
	}
}
