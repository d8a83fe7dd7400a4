// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// libraryPackages are the packages that users import.
var libraryPackages = []string{"cache", "featuregates", "manager", "manager/listers", "objectcache", "reflector", "test/apiserver"}

// Each exported name of the library is used from outside its package, by an example, a
// test or another package: what nobody outside has tried is not known to be usable.
// Names are compared without their types, so that a common name counts as used.
func TestExportedNamesAreUsed(t *testing.T) {
	used := map[string]map[string]bool{} // name to the packages that use it
	err := filepath.WalkDir("..", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "_output" || entry.Name() == ".git"):
			return filepath.SkipDir
		case path.Ext(file) == ".go":
			addUses(t, filepath.ToSlash(file), used)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range libraryPackages {
		for _, name := range exportedNames(t, library) {
			delete(used[name], library)
			if len(used[name]) == 0 && name != "MarshalText" { // encoding/json calls it
				t.Errorf("package %s: nothing outside uses %s: add an example or a test, or unexport it", library, name)
			}
		}
	}
}

// addUses adds the names that a file selects or sets. An external test is a package of
// its own.
func addUses(t *testing.T, file string, used map[string]map[string]bool) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	user := strings.TrimPrefix(path.Dir(file), "../")
	if strings.HasSuffix(parsed.Name.Name, "_test") {
		user += "_test"
	}
	use := func(name *ast.Ident) {
		if used[name.Name] == nil {
			used[name.Name] = map[string]bool{}
		}
		used[name.Name][user] = true
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.SelectorExpr:
			use(node.Sel)
		case *ast.KeyValueExpr:
			if name, ok := node.Key.(*ast.Ident); ok {
				use(name)
			}
		}
		return true
	})
}

// exportedNames returns the exported names of a package: of functions, types, values,
// methods and fields.
func exportedNames(t *testing.T, library string) (names []string) {
	t.Helper()
	add := func(all ...*ast.Ident) {
		for _, name := range all {
			if name.IsExported() {
				names = append(names, name.Name)
			}
		}
	}
	files, err := filepath.Glob(filepath.Join("..", library, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range parsed.Decls {
			switch declaration := declaration.(type) {
			case *ast.FuncDecl:
				if isExportedReceiver(declaration.Recv) {
					add(declaration.Name)
				}
			case *ast.GenDecl:
				for _, spec := range declaration.Specs {
					addSpec(spec, add)
				}
			}
		}
	}
	return names
}

func addSpec(spec ast.Spec, add func(...*ast.Ident)) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		add(spec.Names...)
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return
		}
		add(spec.Name)
		ast.Inspect(spec.Type, func(node ast.Node) bool {
			if field, ok := node.(*ast.Field); ok {
				add(field.Names...)
			}
			_, isFunc := node.(*ast.FuncType)
			return !isFunc
		})
	}
}

// isExportedReceiver reports whether a function has no receiver, or one of an exported
// type.
func isExportedReceiver(receiver *ast.FieldList) bool {
	if receiver == nil {
		return true
	}
	var name *ast.Ident // the first one: a type parameter follows
	ast.Inspect(receiver.List[0].Type, func(node ast.Node) bool {
		if found, ok := node.(*ast.Ident); ok && name == nil {
			name = found
		}
		return name == nil
	})
	return name.IsExported()
}
