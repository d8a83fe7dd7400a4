// SPDX-License-Identifier: Apache-2.0

// Package cli has what the command lines of the examples share: errors that say what to do.
package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// LoadKubeconfig returns the config of a kubeconfig file. If that names no cluster, client-go advises to set an
// environment variable, and the examples ignore those: the error has another text.
func LoadKubeconfig(path string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("it names no cluster: give a file with a cluster and a current context")
	}
	return config, err
}

// Simplify makes a command one without subcommands: an argument is an error, which does not call it a command. All
// errors of the command line refer to --help.
func Simplify(command *cobra.Command) {
	command.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unexpected argument %q; see --help", args[0])
		}
		return nil
	}
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w; see --help", err) })
}
