// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// errNotApplied means that a mutant does not fit the source any more.
var errNotApplied = errors.New("the mutant does not apply")

// declaration is a declaration at the top level of a file.
type declaration struct {
	names    []string // several in a group; that of a method is RECEIVER.NAME
	file     string
	lines    []string // of the file
	from, to int      // the declaration is lines[from:to], without the comment before it
}

// mutated returns the file that the mutant changes, and its changed source.
func (m *mutant) mutated(root string) (file string, source []byte, err error) {
	declarations, err := find(root, m.in)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", errNotApplied, err)
	}
	old := slices.Collect(strings.Lines(m.old))
	var changed string
	found := 0
	for _, d := range declarations { // several, if their files have build constraints
		for start := d.from; start+len(old) <= d.to; start++ {
			end := start + len(old)
			if slices.EqualFunc(d.lines[start:end], old, equalButIndentation) {
				file, changed = d.file, strings.Join(d.lines[:start], "")+m.new+strings.Join(d.lines[end:], "")
				found++
			}
		}
	}
	if found != 1 {
		return "", nil, fmt.Errorf("%w: its old lines are %d times in %s, and must be there once", errNotApplied, found, m.in)
	}
	// The new lines get the indentation of their place.
	if source, err = format.Source([]byte(changed)); err != nil {
		return "", nil, fmt.Errorf("%w: %s: %w", errNotBuilt, file, err)
	}
	return file, source, nil
}

func equalButIndentation(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }

// find returns the declarations that a mutant's line "in:" names.
func find(root, in string) ([]declaration, error) {
	above, last := filepath.Split(in)
	folder, name, _ := strings.Cut(last, ".")
	folder = filepath.Join(above, folder)
	all, err := declarationsOf(filepath.Join(root, folder))
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the folder %q does not exist, or has no declarations", folder)
	}
	var found []declaration
	var like []string
	for _, d := range all {
		if slices.Contains(d.names, name) {
			found = append(found, d)
		}
		for _, other := range d.names {
			if alike(name, other) {
				like = append(like, other)
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the folder %s does not declare %q; names like it: %q", folder, name, like)
	}
	return found, nil
}

// alike reports whether two names have the same end, such as those of a method that got another receiver, or the same
// receiver.
func alike(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	return strings.EqualFold(as[len(as)-1], bs[len(bs)-1]) || as[0] == bs[0]
}

// declarationsOf returns the declarations of a folder's files, except those of tests.
func declarationsOf(folder string) (all []declaration, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		positions := token.NewFileSet()
		parsed, err := parser.ParseFile(positions, file, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		lines := slices.Collect(strings.Lines(string(text)))
		for _, d := range parsed.Decls {
			from, to := positions.Position(d.Pos()).Line-1, positions.Position(d.End()).Line
			all = append(all, declaration{names: namesOf(d), file: file, lines: lines, from: from, to: to})
		}
	}
	return all, nil
}

// namesOf returns the names that a declaration declares.
func namesOf(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			receiver, _, _ := strings.Cut(types.ExprString(d.Recv.List[0].Type), "[")
			name = strings.TrimPrefix(receiver, "*") + "." + name
		}
		return []string{name}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, spec.Name.Name)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}
