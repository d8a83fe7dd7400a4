// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"testing"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/refwatch/refwatch/examples/internal/cli"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestErrorsReferToHelp(t *testing.T) {
	for name, test := range map[string]struct{ arg, want string }{
		"an argument":     {"now", `unexpected argument "now"; see --help`},
		"an unknown flag": {"--now", "unknown flag: --now; see --help"},
	} {
		t.Run(name, func(t *testing.T) {
			command := &cobra.Command{Use: "example", Run: func(*cobra.Command, []string) {}, SilenceErrors: true, SilenceUsage: true}
			cli.Simplify(command)
			command.SetArgs([]string{test.arg})
			if err := command.Execute(); err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// A file without a cluster is an error that names no environment variable: the examples ignore them.
func TestKubeconfigWithoutACluster(t *testing.T) {
	const want = "it names no cluster: give a file with a cluster and a current context"
	t.Setenv("KUBERNETES_MASTER", "https://127.0.0.1:1")
	if config, err := cli.LoadKubeconfig("/dev/null"); err == nil || err.Error() != want {
		t.Errorf("got %v and error %v, want %q", config, err, want)
	}
	if _, err := cli.LoadKubeconfig("/no/such/file"); err == nil || err.Error() == want {
		t.Errorf("a missing file: got error %v, want that of client-go", err)
	}
}
