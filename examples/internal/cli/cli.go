// SPDX-License-Identifier: Apache-2.0

// Package cli has what the command lines of the examples share: errors that say where the help is.
package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

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
