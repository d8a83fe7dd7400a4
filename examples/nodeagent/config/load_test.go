// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
)

const header = "apiVersion: nodeagent.refwatch.dev/v1alpha1\nkind: NodeAgentConfiguration\n"

// load loads a file with this content.
func load(t *testing.T, content string) (*NodeAgentConfiguration, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path)
}

// TestDefaults: fields that are not in the file have their defaults, and fields with a zero value have that.
func TestDefaults(t *testing.T) {
	c, err := load(t, header)
	if err != nil {
		t.Fatal(err)
	}
	if want := Default(); !equality.Semantic.DeepEqual(c, want) {
		t.Errorf("file without fields: got %+v, want %+v", c, want)
	}
	c, err = load(t, header+"bindAddress: \"\"\nnodeName: worker\ntmpfs: {enabled: true}\nlogging: {verbosity: 4}\nfeatureGates: {a: false}\n")
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.BindAddress, want.NodeName, want.Tmpfs.Enabled, want.Logging.Verbosity = "", "worker", true, 4
	want.FeatureGates = map[string]bool{"a": false}
	if !equality.Semantic.DeepEqual(c, want) {
		t.Errorf("file with fields: got %+v, want %+v", c, want)
	}
	if got, want := Changed(Default(), c), []string{"nodeName", "bindAddress", "tmpfs", "featureGates", "logging"}; !slices.Equal(got, want) {
		t.Errorf("Changed: got %q, want %q", got, want)
	}
	if got := Changed(c, c.DeepCopyObject().(*NodeAgentConfiguration)); len(got) != 0 {
		t.Errorf("Changed of a copy: got %q, want none", got)
	}
}

// TestLoadRefuses: a file with a mistake is an error that names the mistake.
func TestLoadRefuses(t *testing.T) {
	const needed = "it must have apiVersion: nodeagent.refwatch.dev/v1alpha1 and kind: NodeAgentConfiguration"
	for name, tc := range map[string]struct{ content, wantErr string }{
		"empty":                 {"", needed},
		"no kind":               {"apiVersion: nodeagent.refwatch.dev/v1alpha1\n", needed},
		"no version":            {"kind: NodeAgentConfiguration\n", needed},
		"other version":         {"apiVersion: nodeagent.refwatch.dev/v1\nkind: NodeAgentConfiguration\n", needed},
		"other object":          {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", needed},
		"unknown field":         {header + "rootdir: /x\n", `unknown field "rootdir"`},
		"unknown field, nested": {header + "tmpfs: {limit: 1}\n", `unknown field "tmpfs.limit"`},
		"unknown field of log":  {header + "logging: {level: 4}\n", `unknown field "logging.level"`},
		"repeated field":        {header + "nodeName: a\nrootDir: /x\nnodeName: b\n", `line 5: key "nodeName" already set`},
		"repeated field, JSON": {
			`{"apiVersion":"nodeagent.refwatch.dev/v1alpha1","kind":"NodeAgentConfiguration","tmpfs":{"enabled":true,"enabled":false}}`,
			`duplicate field "tmpfs.enabled"`,
		},
		"other type":   {header + "nodeName: 7\n", "nodeName of type string"},
		"not YAML":     {header + "nodeName: [\n", "yaml: line"},
		"bad quantity": {header + "tmpfs: {size: much}\n", "tmpfs.size: Invalid value: quantities must match"},
		"bad suffix":   {header + "tmpfs: {size: 32Mm}\n", "tmpfs.size: Invalid value: unable to parse quantity's suffix"},
	} {
		t.Run(name, func(t *testing.T) {
			if c, err := load(t, tc.content); err == nil || !strings.Contains(err.Error(), tc.wantErr) || !strings.Contains(err.Error(), "config.yaml") {
				t.Errorf("Load: got %+v and error %v, want an error with the file and %q", c, err, tc.wantErr)
			}
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load without a file: got error %v, want ErrNotExist", err)
	}
}

// TestValidate: all errors are returned together, each with the path of its field.
func TestValidate(t *testing.T) {
	c, err := load(t, header+`
nodeName: A B
bindAddress: localhost
tmpfs: {size: "0"}
featureGates: {None: true, ImmutableEphemeralVolumes: false}
logging: {format: xml, flushFrequency: -1s}
`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, err := range Validate(c) {
		got = append(got, err.Field)
	}
	want := []string{
		"nodeName", "rootDir", "bindAddress", "tmpfs.size", "featureGates[None]", "logging.flushFrequency", "logging.format",
	}
	if !slices.Equal(got, want) {
		t.Errorf("fields with errors: got %q, want %q: %v", got, want, Validate(c).ToAggregate())
	}
	good := Default()
	good.NodeName, good.RootDir = "n", "/x"
	for _, address := range []string{"", "0", "127.0.0.1:0", "[::1]:10270", "0.0.0.0:1"} {
		good.BindAddress = address
		if errs := Validate(good); len(errs) > 0 {
			t.Errorf("address %q: got %v, want no error", address, errs.ToAggregate())
		}
		if got, want := good.Serves(), len(address) > 1; got != want {
			t.Errorf("address %q: got Serves %v, want %v", address, got, want)
		}
	}
}
