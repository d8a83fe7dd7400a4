// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// repository is where the source is, as provenance names it.
const repository = "https://github.com/refwatch/refwatch"

// statement is an in-toto statement, version 1 (https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md).
type statement struct {
	Type          string     `json:"_type"`
	Subject       []subject  `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     provenance `json:"predicate"`
}

// subject is a file.
type subject struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

// provenance is that of SLSA, version 1 (https://slsa.dev/spec/v1.0/provenance).
type provenance struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		InternalParameters   map[string]string `json:"internalParameters"`
		ResolvedDependencies []subject         `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder map[string]string `json:"builder"`
	} `json:"runDetails"`
}

// writeProvenance says from which commit the files of the release were made.
func (r *release) writeProvenance(string) error {
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	err := filepath.WalkDir(r.folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.folder, file)
		sum := sha256.Sum256(text)
		s.Subject = append(s.Subject, subject{Name: filepath.ToSlash(name), Digest: map[string]string{"sha256": hex.EncodeToString(sum[:])}})
		return err
	})
	if err != nil {
		return err
	}
	build := &s.Predicate.BuildDefinition
	build.BuildType = repository + "/blob/main/docs/releasing.md"
	build.ExternalParameters = map[string]string{"repository": repository, "version": r.version}
	build.InternalParameters = map[string]string{"go": runtime.Version()}
	build.ResolvedDependencies = []subject{{URI: "git+" + repository, Digest: map[string]string{"gitCommit": r.commit}}}
	s.Predicate.RunDetails.Builder = map[string]string{"id": repository + "/blob/main/test/tools/release"}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.folder, "provenance.json"), append(text, '\n'), 0o644)
}
