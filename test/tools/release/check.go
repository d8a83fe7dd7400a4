// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// output runs a program in a folder, and returns what it has printed.
func output(dir, program string, args ...string) (string, error) {
	command := exec.Command(program, args...)
	command.Dir = dir
	var stderr bytes.Buffer
	command.Stderr = &stderr
	text, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, &stderr)
	}
	return strings.TrimSpace(string(text)), nil
}

// checkTree returns an error if what git has is not what the folder has.
func (r *release) checkTree() error {
	changes, err := output(r.root, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		return fmt.Errorf("the tree has changes: commit or remove them:\n%s", changes)
	}
	return nil
}

// checkDocuments returns an error that names what the documents lack.
func (r *release) checkDocuments() error {
	var lacks []error
	if _, err := r.changes(); err != nil {
		lacks = append(lacks, err)
	}
	row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(r.version) + ` \|`)
	if text, err := os.ReadFile(filepath.Join(r.root, "docs/stability.md")); err != nil || !row.Match(text) {
		lacks = append(lacks, errors.Join(err, fmt.Errorf("docs/stability.md: the table of versions lacks %s", r.version)))
	}
	return errors.Join(lacks...)
}

// changes returns the section of the version in the changelog.
func (r *release) changes() (string, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	heading := regexp.MustCompile(`(?m)^## \[` + regexp.QuoteMeta(strings.TrimPrefix(r.version, "v")) + `\] - \d{4}-\d\d-\d\d$`)
	at := heading.FindIndex(text)
	if at == nil {
		return "", fmt.Errorf("CHANGELOG.md lacks a heading such as ## [%s] - 2026-01-31", strings.TrimPrefix(r.version, "v"))
	}
	section, _, _ := strings.Cut(string(text[at[1]:]), "\n## ")
	return strings.TrimSpace(section), nil
}

// writeNotes writes the release notes: the section of the changelog.
func (r *release) writeNotes(string) error {
	changes, err := r.changes()
	if err != nil {
		if r.dryRun {
			return nil // checkDocuments has said so
		}
		return err
	}
	notes := fmt.Sprintf("# %s\n\n%s\n", r.version, changes)
	return os.WriteFile(filepath.Join(r.folder, "notes.md"), []byte(notes), 0o644)
}
