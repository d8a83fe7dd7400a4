// SPDX-License-Identifier: Apache-2.0

// Command release makes what a release consists of, and its tags:
//
//	release -version v0.1.0 [-dry-run] [-root FOLDER] [-sbom FOLDER] -o FOLDER MODULE...
//
// MODULE is the folder of a module that is released, below that of -root, the root first. The command refuses a tree
// with changes, a tag that exists, and documents that do not name the version. FOLDER gets
//
//   - proxy: a module proxy with the zip file of each module, as Go's would have it
//   - sbom: the bills of materials that -sbom has
//   - notes.md: the section of the changelog
//   - provenance.json: an in-toto statement with the SLSA provenance of these files. It is not signed
//
// Then it builds a program that requires the modules from that proxy, without a replace directive, and tags HEAD for
// each module, in the order of the arguments. It pushes nothing.
//
// With -dry-run it tries HEAD, and makes no tags. It prints what is to be done before the release, and does not fail
// for that. It gives the modules the version in a clone, so that a commit can be tried that is not prepared.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/mod/semver"
)

func main() {
	err := start(os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is a version that is made.
type release struct {
	version string
	dryRun  bool
	root    string // the repository
	folder  string // of what is made
	sbom    string // the folder of bills of materials, may be empty
	modules []*module
	commit  string // of HEAD, before a dry run has given modules the version
	out     io.Writer
}

func start(args []string, out io.Writer) error {
	r := &release{out: out}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&r.version, "version", "", "the `version`, such as v0.1.0")
	flags.BoolVar(&r.dryRun, "dry-run", false, "make no tags, and accept documents that do not name the version")
	flags.StringVar(&r.root, "root", ".", "the `folder` of the repository")
	flags.StringVar(&r.sbom, "sbom", "", "the `folder` of the modules' bills of materials")
	flags.StringVar(&r.folder, "o", "", "the `folder` for what is made, which is emptied first")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.folder == "" || flags.NArg() == 0 {
		return errors.New("-o FOLDER and the folder of at least one module are required")
	}
	if !semver.IsValid(r.version) || semver.Canonical(r.version) != r.version {
		return fmt.Errorf("-version: got %q, want a version such as v0.1.0", r.version)
	}
	var err error
	if r.folder, err = filepath.Abs(r.folder); err != nil {
		return err
	}
	if r.commit, err = output(r.root, "git", "rev-parse", "HEAD"); err != nil {
		return err
	}
	return r.run(flags.Args())
}

func (r *release) run(folders []string) error {
	if err := errors.Join(r.checkTree(), r.checkDocuments()); err != nil {
		if !r.dryRun {
			return err
		}
		fmt.Fprintf(r.out, "HEAD is tried; to do before the release:\n%v\n", err)
	}
	if err := os.RemoveAll(r.folder); err != nil {
		return err
	}
	source, cleanUp, err := r.source(folders)
	if err != nil {
		return err
	}
	defer cleanUp()
	for _, step := range []func(string) error{r.readModules(folders), r.writeProxy, r.writeSBOM, r.writeNotes, r.writeProvenance, r.try} {
		if err := step(source); err != nil {
			return err
		}
	}
	return r.tag()
}

// tag makes the tags, or says which.
func (r *release) tag() error {
	done := "tagged"
	if r.dryRun {
		done = "would tag"
	}
	for _, m := range r.modules {
		message := m.path + " " + r.version
		if !r.dryRun {
			kind := "-a"
			if key, err := output(r.root, "git", "config", "user.signingKey"); err == nil && key != "" {
				kind = "-s"
			}
			if _, err := output(r.root, "git", "tag", kind, m.tag(r.version), "-m", message, r.commit); err != nil {
				return err
			}
		}
		fmt.Fprintf(r.out, "%s %s, %s\n", done, m.tag(r.version), m.sum)
	}
	fmt.Fprintf(r.out, "made %s\n", r.folder)
	if !r.dryRun {
		for _, m := range r.modules {
			fmt.Fprintf(r.out, "publish: git push origin %s\n", m.tag(r.version))
		}
	}
	return nil
}

// writeSBOM copies the bills of materials.
func (r *release) writeSBOM(string) error {
	if r.sbom == "" {
		return nil
	}
	return os.CopyFS(filepath.Join(r.folder, "sbom"), os.DirFS(r.sbom))
}
