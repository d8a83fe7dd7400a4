// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/refwatch/refwatch/test/model"
)

// What a failure prints can be replayed.
func TestParseReturnsWhatStringPrints(t *testing.T) {
	drawn := model.Draw()
	rapid.Check(t, func(rt *rapid.T) {
		s := drawn.Draw(rt, "schedule")
		got, err := model.Parse(s.String())
		if err != nil || got.String() != s.String() {
			rt.Fatalf("parse: got\n%s%v, want\n%s", got, err, s)
		}
	})
}

// A step that does not exist is an error: a misspelt schedule must not pass.
func TestParseRefusesUnknownSteps(t *testing.T) {
	for _, text := range []string{"nothing 1", "inject nothing 1", "with nothing", "get one"} {
		if s, err := model.Parse(text); err == nil {
			t.Errorf("parse %q: got %q, want an error", text, s)
		}
	}
}

// The package documentation explains every step that a failure may print.
func TestEveryStepIsExplained(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	drawn := model.Draw()
	rapid.Check(t, func(rt *rapid.T) {
		for _, step := range drawn.Draw(rt, "schedule") {
			op, _, _ := strings.Cut(strings.TrimPrefix(step.Op, "with "), " ")
			if !strings.Contains(string(doc), op) {
				rt.Fatalf("the documentation has no step %q", step.Op)
			}
		}
	})
}
