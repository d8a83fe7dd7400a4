// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The page of times has a row for each named constant of time of the library, with its value, and no other row.
func TestTimes(t *testing.T) {
	page, err := os.ReadFile("../../docs/design/0012-times.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]*?) *\\|").FindAllStringSubmatch(string(page), -1) {
		value := ""
		if row[2] != "" {
			d, err := time.ParseDuration(strings.ReplaceAll(row[2], " ", ""))
			if err != nil {
				t.Errorf("%s: %v", row[1], err)
			}
			value = " " + d.String()
		}
		rows = append(rows, row[1]+value)
	}
	var names []string
	for _, folder := range []string{"internal", "cache", "reflector", "objectcache", "manager", "featuregates"} {
		names = append(names, timesOf(t, filepath.Join("../..", folder))...)
	}
	slices.Sort(rows)
	slices.Sort(names)
	for _, name := range names {
		if !slices.Contains(rows, name) {
			t.Errorf("the page has no row for %s", name)
		}
	}
	for _, row := range rows {
		if !slices.Contains(names, row) {
			t.Errorf("the code has no constant %s, which the page has", row)
		}
	}
	if len(names) != len(rows) || len(names) < 60 {
		t.Errorf("got %d constants and %d rows, want as many, and 60 or more", len(names), len(rows))
	}
}

// timesOf returns the names of the constants and variables of time in a folder, each with its value if that is simple.
func timesOf(t *testing.T, folder string) (all []string) {
	values := map[string]map[string]time.Duration{} // of each folder
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "histogram") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		known := values[filepath.Dir(path)]
		if known == nil {
			known = map[string]time.Duration{}
			values[filepath.Dir(path)] = known
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				return false
			case *ast.ValueSpec:
				for i, value := range n.Values {
					if !isTime(value) {
						continue
					}
					name := n.Names[i].Name
					if d, ok := duration(value, known); ok {
						known[name] = d
						name += " " + d.String()
					}
					all = append(all, name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var units = map[string]time.Duration{
	"Microsecond": time.Microsecond, "Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
}

// isTime reports whether an expression names a unit of time. The moments of package slept are no durations.
func isTime(e ast.Expr) (is bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			p, ok := n.X.(*ast.Ident)
			is = is || ok && p.Name == "time" && units[n.Sel.Name] > 0
		case *ast.CallExpr:
			return false
		}
		return true
	})
	return is
}

// duration returns the value of an expression of units, numbers and constants that came before.
func duration(e ast.Expr, known map[string]time.Duration) (d time.Duration, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		n, err := strconv.Atoi(e.Value)
		return time.Duration(n), err == nil
	case *ast.Ident:
		d, ok = known[e.Name]
		return d, ok
	case *ast.SelectorExpr:
		d, ok = units[e.Sel.Name]
		return d, ok
	case *ast.BinaryExpr:
		x, xOK := duration(e.X, known)
		y, yOK := duration(e.Y, known)
		switch e.Op {
		case token.MUL:
			return x * y, xOK && yOK
		case token.SUB:
			return x - y, xOK && yOK
		}
	}
	return 0, false
}
