// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/xeipuuv/gojsonschema"
)

const root = "../../.."

func encoded(t *testing.T) []byte {
	t.Helper()
	bom, err := newBOM(root, "v0.0.1", "2026-01-02T15:04:05Z")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := encode(&text, bom); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

func goOutput(t *testing.T, dir string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = dir
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(output))
}

// The bill has what users link, in the versions of go.mod, and nothing else.
func TestBOMHasWhatUsersLink(t *testing.T) {
	bom := &cdx.BOM{}
	if err := cdx.NewBOMDecoder(bytes.NewReader(encoded(t)), cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	if got, want := bom.Metadata.Component.PackageURL, "pkg:golang/github.com/refwatch/refwatch@v0.0.1?type=module"; got != want {
		t.Errorf("subject: got %s, want %s", got, want)
	}
	refs := map[string]bool{bom.Metadata.Component.BOMRef: true}
	versions := map[string]string{}
	for _, component := range *bom.Components {
		refs[component.BOMRef] = true
		versions[component.Name] = component.Version
		if component.Hashes == nil {
			t.Errorf("%s has no hash", component.Name)
		}
	}
	for _, linked := range []string{"k8s.io/client-go", "k8s.io/apimachinery", "golang.org/x/net"} {
		want := goOutput(t, root, "list", "-m", "-f", "{{.Version}}", linked)
		if versions[linked] != want {
			t.Errorf("version of %s: got %q, want %q", linked, versions[linked], want)
		}
	}
	for _, testOnly := range []string{"go.uber.org/goleak", "pgregory.net/rapid", "github.com/spf13/cobra"} {
		if version, ok := versions[testOnly]; ok {
			t.Errorf("the bill has %s %s, which users do not link", testOnly, version)
		}
	}
	if got, want := len(*bom.Dependencies), len(refs); got != want {
		t.Errorf("dependencies: got those of %d modules, want %d", got, want)
	}
	edges := 0
	for _, dependency := range *bom.Dependencies {
		of := []string{dependency.Ref}
		if dependency.Dependencies != nil {
			of = append(of, *dependency.Dependencies...)
			edges += len(*dependency.Dependencies)
		}
		for _, ref := range of {
			if !refs[ref] {
				t.Errorf("no component has the reference %s", ref)
			}
		}
	}
	if edges < len(refs) {
		t.Errorf("dependencies among %d modules: got %d, want more", len(refs), edges)
	}
}

func TestBOMIsReproducible(t *testing.T) {
	if first, second := encoded(t), encoded(t); !bytes.Equal(first, second) {
		t.Errorf("two bills of one commit differ: got\n%s\nwant\n%s", second, first)
	}
}

// The schemas are those that the CycloneDX library has for its own tests.
func TestBOMFollowsTheSchema(t *testing.T) {
	folder := filepath.Join(goOutput(t, ".", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go"), "schema")
	file := func(name string) gojsonschema.JSONLoader {
		return gojsonschema.NewReferenceLoader("file://" + filepath.ToSlash(filepath.Join(folder, name)))
	}
	loader := gojsonschema.NewSchemaLoader()
	if err := loader.AddSchemas(file("spdx.schema.json"), file("jsf-0.82.schemax.json")); err != nil {
		t.Fatal(err)
	}
	schema, err := loader.Compile(file("bom-1.6.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	result, err := schema.Validate(gojsonschema.NewBytesLoader(encoded(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, violation := range result.Errors() {
		t.Error(violation)
	}
}
