// SPDX-License-Identifier: Apache-2.0

// Command files writes docs/files.md: what each package, and each file of the library, is for.
//
//	files [-root FOLDER]
//
// The text of a package is the first sentence of its documentation. That of a file is the first sentence of one of its
// comments, the first that is there:
//
//   - a comment by itself above the first declaration,
//   - that of the declaration after which the file is named,
//   - that of a declaration: an exported type or function, another type, and then others.
//
// It ends at a colon, or at a comma if it is long.
//
// `make files` runs it. The test of this package fails if the page is out of date.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

const page = "docs/files.md"

const introduction = "# Files\n\nThe packages, and the files of the library. `make files` writes this page, from comments in the code.\n"

// library are the folders whose files are listed. Of the packages in programs only the package is.
var (
	library  = []string{"cache", "reflector", "objectcache", "manager", "featuregates", "internal"}
	programs = []string{"examples", "test"}
)

func main() {
	root := flag.String("root", ".", "the `folder` of the repository")
	flag.Parse()
	text, err := pageOf(*root)
	if err == nil {
		err = os.WriteFile(filepath.Join(*root, page), []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "files:", err)
		os.Exit(1)
	}
}

// pageOf returns the page of the repository in root.
func pageOf(root string) (string, error) {
	var out strings.Builder
	out.WriteString(introduction)
	for _, top := range library {
		packages, err := packagesIn(root, top)
		if err != nil {
			return "", err
		}
		for _, p := range packages {
			p.write(&out)
		}
	}
	for _, top := range programs {
		packages, err := packagesIn(root, top)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "\n## %s\n\n", top)
		for _, p := range packages {
			if p.text != "" && strings.Count(p.folder, "/") == 1 {
				writeItem(&out, p.folder, p.text)
			}
		}
	}
	return out.String(), nil
}

// pack is a package: what it is for, and its files.
type pack struct {
	folder, text string
	files        []file
}

type file struct{ name, text string }

func (p *pack) write(out *strings.Builder) {
	fmt.Fprintf(out, "\n## %s\n\n", p.folder)
	wrap(out, strings.ToUpper(p.text[:1])+p.text[1:]+".", "")
	out.WriteString("\n")
	for _, f := range p.files {
		writeItem(out, f.name, f.text)
	}
}

// width is the number of characters of a line. Prose has no longer ones.
const width = 120

// writeItem writes an item of a list. A text that does not fit into the line ends at a comma.
func writeItem(out *strings.Builder, name, text string) {
	start := "- `" + name + "`: "
	for utf8.RuneCountInString(start+text) > width && strings.Contains(text, ", ") {
		text = text[:strings.LastIndex(text, ", ")]
	}
	wrap(out, start+cmp.Or(text, "–"), "  ")
}

// wrap writes words in lines that fit.
func wrap(out *strings.Builder, text, indent string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line+" "+word) > width:
			out.WriteString(line + "\n")
			line = indent + word
		default:
			line += " " + word
		}
	}
	out.WriteString(line + "\n")
}

// synopsis returns the first sentence of a comment, up to its first colon, without the brackets of links.
func synopsis(comment string) string {
	text := new(doc.Package).Synopsis(comment)
	text, _, _ = strings.Cut(text, ": ")
	text = strings.NewReplacer("[", "", "]", "").Replace(strings.TrimRight(text, ":."))
	if start, rest, ok := strings.Cut(text, " "); ok && (start == "Package" || start == "Command") {
		_, text, _ = strings.Cut(rest, " ")
	}
	return text
}

// packagesIn returns the packages in a folder of the repository, sorted by their folders.
func packagesIn(root, top string) (packages []*pack, err error) {
	byFolder := map[string]*pack{}
	err = filepath.WalkDir(filepath.Join(root, top), func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "testdata":
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder := path.Dir(filepath.ToSlash(relative))
		if byFolder[folder] == nil {
			byFolder[folder] = &pack{folder: folder}
			packages = append(packages, byFolder[folder])
		}
		byFolder[folder].add(parsed, entry.Name())
		return nil
	})
	slices.SortFunc(packages, func(a, b *pack) int { return cmp.Compare(a.folder, b.folder) })
	return packages, err
}

// add adds a file to its package. Files of tests count for the text of the package only.
func (p *pack) add(f *ast.File, name string) {
	if f.Doc != nil && p.text == "" {
		p.text = synopsis(f.Doc.Text())
	}
	if name == "doc.go" || strings.HasSuffix(name, "_test.go") {
		return
	}
	p.files = append(p.files, file{name, synopsis(about(f, strings.TrimSuffix(name, ".go")))})
}
