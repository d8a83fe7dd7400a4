// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte("this: [is no kubeconfig"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args    []string
		wantErr string
	}{
		"unknown flag":           {[]string{"--kube-config=x"}, "unknown flag: --kube-config"},
		"an argument":            {[]string{"now"}, `unexpected argument "now"; see --help`},
		"empty kubeconfig":       {[]string{"--kubeconfig="}, "--kubeconfig is empty"},
		"unknown cache":          {[]string{"--cache=none"}, `--cache is "none": use refwatch or stock`},
		"two clusters":           {[]string{"--kubeconfig=" + garbage, "--in-cluster"}, "omit one of the two"},
		"once, with a cluster":   {[]string{"--kubeconfig=" + garbage, "--once"}, "--once is for the demo"},
		"stock, in the demo":     {[]string{"--cache=stock", "--once"}, "--cache=stock needs --kubeconfig"},
		"negative time":          {[]string{"--cache-sync-timeout=-1s"}, "--cache-sync-timeout is -1s"},
		"kubeconfig missing":     {[]string{"--kubeconfig=" + dir + "/none"}, "--kubeconfig cannot be read"},
		"kubeconfig garbage":     {[]string{"--kubeconfig=" + garbage}, "cannot be used"},
		"in-cluster, but is not": {[]string{"--in-cluster"}, "--in-cluster: unable to load in-cluster configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			if _, err := execute(t.Context(), tc.args...); err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("operator %q: got error %v, want one with %q", tc.args, err, tc.wantErr)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	out, err := execute(t.Context(), "--help")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--kubeconfig", "--in-cluster", "--once", "--cache ", "--leader-elect", "--health-probe-bind-address"} {
		if !strings.Contains(out, want) {
			t.Errorf("help: got no %s in:\n%s", want, out)
		}
	}
}
