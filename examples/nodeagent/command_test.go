// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// header begins a configuration file.
const header = "apiVersion: nodeagent.refwatch.dev/v1alpha1\nkind: NodeAgentConfiguration\n"

// execute runs the command with arguments and returns its output.
func execute(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	command := newCommand()
	command.SetArgs(args)
	command.SetOut(&out)
	command.SetErr(&out)
	command.SilenceErrors, command.SilenceUsage = true, true
	err := command.ExecuteContext(ctx)
	return out.String(), err
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	garbage := file("garbage", "this: [is no kubeconfig")
	empty := file("empty", "")
	good := file("good", `{"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`)
	settings, mistake := file("settings", header), file("mistake", header+"nodename: n")
	root := filepath.Join(dir, "root")
	for name, tc := range map[string]struct {
		args    []string
		wantErr string
	}{
		"unknown flag":            {[]string{"--nodename=x"}, "unknown flag: --nodename"},
		"an argument":             {[]string{"now"}, `unexpected argument "now"; see --help`},
		"unknown gate":            {[]string{"--feature-gates=NoSuchGate=true"}, "featureGates[NoSuchGate]: Invalid value: true: unrecognized feature gate"},
		"gate without a value":    {[]string{"--feature-gates=ImmutableEphemeralVolumes"}, "malformed pair"},
		"gate neither on nor off": {[]string{"--feature-gates=ImmutableEphemeralVolumes=maybe"}, "invalid value"},
		"empty node name":         {[]string{"--node-name="}, "--node-name is empty"},
		"empty root folder":       {[]string{"--root-dir="}, "--root-dir is empty"},
		"empty kubeconfig":        {[]string{"--kubeconfig="}, "--kubeconfig is empty"},
		"no kubeconfig file":      {[]string{"--kubeconfig=/no/such/file"}, "the kubeconfig cannot be read"},
		"empty config":            {[]string{"--config="}, "--config is empty"},
		"invalid node name":       {[]string{"--node-name=a,b"}, `nodeName: Invalid value: "a,b"`},
		"once is not a boolean":   {[]string{"--once=perhaps"}, "invalid argument"},
		"unknown log format":      {[]string{"--logging-format=xml"}, `logging.format: Invalid value: "xml"`},
		"address of the demo":     {[]string{"--bind-address=here"}, `bindAddress: Invalid value: "here"`},
		"once, with a cluster":    {[]string{"--kubeconfig=" + good, "--once"}, "--once is for the demo"},
		"once, with a config":     {[]string{"--config=" + settings, "--once"}, "--once is for the demo"},
		"cluster without a node":  {[]string{"--kubeconfig=" + good, "--root-dir=" + root}, "nodeName: Required value"},
		"cluster without a root":  {[]string{"--kubeconfig=" + good, "--node-name=n"}, "rootDir: Required value"},
		"kubeconfig missing":      {[]string{"--kubeconfig=" + dir + "/none", "--node-name=n", "--root-dir=" + root}, "the kubeconfig cannot be read"},
		"kubeconfig garbage":      {[]string{"--kubeconfig=" + garbage, "--node-name=n", "--root-dir=" + root}, "cannot be used"},
		"kubeconfig a folder":     {[]string{"--kubeconfig=" + dir, "--node-name=n", "--root-dir=" + root}, "cannot be used"},
		"kubeconfig empty file":   {[]string{"--kubeconfig=" + empty, "--node-name=n", "--root-dir=" + root}, "cannot be used: it names no cluster"},
		"kubeconfig /dev/null":    {[]string{"--kubeconfig=/dev/null", "--node-name=n", "--root-dir=" + root}, "the kubeconfig /dev/null cannot be used: it names no cluster"},
		"no pod to run in":        {[]string{"--config=" + settings, "--node-name=n", "--root-dir=" + root}, "the service account of its pod"},
		"no pod, and no node":     {[]string{"--config=" + settings}, "set --kubeconfig: unable to load in-cluster configuration"},
		"config missing":          {[]string{"--config=" + dir + "/none"}, "reading the configuration"},
		"config of another kind":  {[]string{"--config=" + good}, "it must have apiVersion: nodeagent.refwatch.dev/v1alpha1"},
		"config with a mistake":   {[]string{"--config=" + mistake}, `configuration file ` + mistake + `: strict decoding error: unknown field "nodename"`},
		"root below a file":       {[]string{"--kubeconfig=" + good, "--node-name=n", "--bind-address=0", "--root-dir=" + good + "/root"}, "creating the root folder"},
		"demo root below a file":  {[]string{"--once", "--root-dir=" + good + "/root"}, "creating the root folder"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := execute(t.Context(), tc.args...); err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("nodeagent %q: got error %v, want one with %q", tc.args, err, tc.wantErr)
			}
		})
	}
	if _, err := os.Lstat(root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("root folder: got %v, want that it does not exist", err)
	}
}

func TestHelp(t *testing.T) {
	out, err := execute(t.Context(), "--help")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Agent flags:", "--config", "--kubeconfig", "--node-name", "--root-dir", "--tmpfs", "--feature-gates",
		"Serving flags:", "--bind-address", "Demo flags:", "--once", "Logging flags:", "--logging-format", "--v ", "Global flags:",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("help: got no %s in:\n%s", want, out)
		}
	}
	if strings.Contains(out, "[Alpha]") {
		t.Errorf("help: got flags for a feature gate that the agent does not have in:\n%s", out)
	}
}
