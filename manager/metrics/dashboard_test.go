// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// dashboard is what the test needs of Grafana's JSON model.
type dashboard struct {
	UID        string
	Title      string
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
	Panels []struct {
		ID          int
		Title, Type string
		Description string
		GridPos     struct{ X, Y, W, H int }
		Datasource  struct{ UID string }
		Targets     []struct{ RefID, Expr, LegendFormat string }
	}
}

// scope selects the processes that the user has chosen.
const scope = `{job=~"$job",instance=~"$instance"`

// The dashboard uses each metric, and no other name. Its panels do not overlap. Each query
// is of the chosen processes.
func TestDashboard(t *testing.T) {
	var d dashboard
	decoder := json.NewDecoder(strings.NewReader(read(t, "../../docs/dashboards/refwatch.json")))
	if err := decoder.Decode(&d); err != nil {
		t.Fatal(err)
	}
	variables := map[string]bool{"__rate_interval": true}
	for _, variable := range d.Templating.List {
		variables[variable.Name] = true
		namesIn(t, variable.Query)
	}
	used, taken, ids := map[string]bool{}, map[[2]int]string{}, map[int]bool{}
	for _, panel := range d.Panels {
		if panel.Title == "" || panel.Description == "" || ids[panel.ID] || len(panel.Targets) == 0 || panel.Datasource.UID != "${datasource}" {
			t.Errorf("panel %d %q: got %+v, want a number of its own, a title, a description, a query and the data source", panel.ID, panel.Title, panel)
		}
		ids[panel.ID] = true
		for x := panel.GridPos.X; x < panel.GridPos.X+panel.GridPos.W; x++ {
			for y := panel.GridPos.Y; y < panel.GridPos.Y+panel.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q: got a place over %q, or beyond the 24 columns", panel.Title, other)
				}
				taken[[2]int{x, y}] = panel.Title
			}
		}
		for _, target := range panel.Targets {
			names := namesIn(t, target.Expr)
			if len(names) == 0 || target.RefID == "" {
				t.Errorf("panel %q: got the query %q, want one with a metric and a number", panel.Title, target.Expr)
			}
			for _, name := range names {
				used[name] = true
			}
			if strings.Count(target.Expr, scope) != len(names) {
				t.Errorf("panel %q: got the query %q, want each metric with %s", panel.Title, target.Expr, scope)
			}
			checkBrackets(t, target.Expr)
			for _, variable := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				if !variables[variable[1]] {
					t.Errorf("panel %q: got the variable %s, which is not defined", panel.Title, variable[0])
				}
			}
		}
	}
	_, types := exported(t)
	for name := range types {
		if !used[name] {
			t.Errorf("%s: got no panel, want one", name)
		}
	}
}

// checkBrackets fails if the brackets of an expression are not balanced.
func checkBrackets(t *testing.T, expression string) {
	t.Helper()
	var open []rune
	closes := map[rune]rune{')': '(', ']': '[', '}': '{'}
	for _, c := range expression {
		switch opener, closing := closes[c]; {
		case strings.ContainsRune("([{", c):
			open = append(open, c)
		case closing && (len(open) == 0 || open[len(open)-1] != opener):
			t.Errorf("%s: got %q without its opening bracket", expression, c)
			return
		case closing:
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Errorf("%s: got %q without its closing bracket", expression, open)
	}
}
