// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root is the folder of the repository.
const root = "../.."

// page is a Markdown file.
type page struct {
	path   string // from root, with slashes
	blocks []block
	prose  []line // what is not in a block
}

// block is a fenced block of code.
type block struct {
	at       line // the opening fence
	language string
	lines    []string // without the indentation of the fence
}

type line struct {
	number int
	text   string
}

// pages returns all Markdown files of the repository.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	for _, file := range files(t, ".md") {
		all = append(all, parse(file, read(t, file)))
	}
	if len(all) < 10 {
		t.Fatalf("pages: got %d, want 10 or more", len(all))
	}
	return all
}

// files returns the paths from root of all files with the given extension.
func files(t *testing.T, extension string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "_output" || entry.Name() == ".git" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case !entry.IsDir() && filepath.Ext(file) == extension:
			path, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			paths = append(paths, filepath.ToSlash(path))
		}
		return nil
	})
	check(t, err)
	return paths
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	check(t, err)
	return string(text)
}

// exists reports whether root has a file or folder at path.
func exists(path string) bool {
	_, err := os.Stat(filepath.Join(root, filepath.FromSlash(path)))
	return err == nil
}

// parse splits a page into blocks and prose.
func parse(path, text string) page {
	p := page{path: path}
	var open *block
	for i, text := range strings.Split(text, "\n") {
		trimmed := strings.TrimLeft(text, " ")
		indent := text[:len(text)-len(trimmed)]
		language, fence := strings.CutPrefix(trimmed, "```")
		switch {
		case fence && open == nil:
			open = &block{at: line{i + 1, indent}, language: strings.TrimSpace(language)}
		case fence:
			p.blocks, open = append(p.blocks, *open), nil
		case open != nil:
			open.lines = append(open.lines, strings.TrimPrefix(text, open.at.text))
		default:
			p.prose = append(p.prose, line{i + 1, text})
		}
	}
	return p
}
