// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// declaration is a documented declaration of a file.
type declaration struct {
	text string
	rank int // the lowest is the one that says most about the file
}

// about returns the comment that says what a file is for, or "".
func about(f *ast.File, base string) string {
	var found []declaration
	first := f.End() // of the declarations and their comments
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			continue
		}
		documented := documented(d)
		first = min(first, d.Pos())
		for _, d := range documented {
			first = min(first, d.comment.Pos())
			found = append(found, declaration{d.comment.Text(), rank(d, base)})
		}
	}
	for _, c := range f.Comments {
		if text := c.Text(); c.Pos() > f.Name.End() && c.End() < first && text != "" {
			return text
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.MinFunc(found, func(a, b declaration) int { return a.rank - b.rank }).text
}

// named is a name that a declaration declares, with its comment.
type named struct {
	name    string // in lower case if its receiver is
	comment *ast.CommentGroup
	kind    kind
}

type kind int

const (
	aType kind = iota
	aFunction
	aMethod // of an exported type
	aValue  // a constant or a variable
)

// documented returns what a declaration declares with a comment.
func documented(d ast.Decl) (all []named) {
	add := func(n named, comments ...*ast.CommentGroup) {
		for _, comment := range comments {
			if n.comment == nil {
				n.comment = comment
			}
		}
		if n.comment != nil {
			all = append(all, n)
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		n := named{name: d.Name.Name, kind: aFunction}
		if d.Recv != nil {
			n.kind = aMethod
			if !ast.IsExported(receiver(d)) {
				n.name = strings.ToLower(n.name[:1]) + n.name[1:]
			}
		}
		add(n, d.Doc)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				add(named{name: spec.Name.Name, kind: aType}, spec.Doc, d.Doc)
			case *ast.ValueSpec:
				add(named{name: spec.Names[0].Name, kind: aValue}, spec.Doc, d.Doc)
			}
		}
	}
	return all
}

// receiver returns the name of the type whose method d is.
func receiver(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	for {
		switch of := t.(type) {
		case *ast.StarExpr:
			t = of.X
		case *ast.IndexExpr:
			t = of.X
		case *ast.IndexListExpr:
			t = of.X
		case *ast.Ident:
			return of.Name
		default:
			return ""
		}
	}
}

// rank returns how much a declaration says about its file: the less the more.
func rank(d named, base string) int {
	exported := ast.IsExported(d.name)
	switch {
	case strings.EqualFold(d.name, strings.ReplaceAll(base, "_", "")):
		return 0
	case exported && (d.kind == aType || d.kind == aFunction):
		return 1
	case exported && d.kind == aMethod:
		return 2
	case d.kind == aType:
		return 3
	case d.kind != aValue:
		return 4
	}
	return 5
}
