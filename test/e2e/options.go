// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"os"
)

// Options configures a control plane. The zero value is valid.
type Options struct {
	// DisableWatchList disables the server's feature gate WatchList: sendInitialEvents is refused with 422.
	DisableWatchList bool

	// APIServerArgs are appended to the arguments of kube-apiserver, and override them. For instance:
	// "--goaway-chance=0.02", "--http2-max-streams-per-connection=10", "--watch-cache-sizes=secrets#0".
	APIServerArgs []string

	// Log receives the progress of a build and the address of the control plane. Default: [os.Stderr].
	Log io.Writer
}

func (o Options) log() io.Writer {
	if o.Log == nil {
		return os.Stderr
	}
	return o.Log
}

// logf writes a line of progress and ignores errors.
func logf(log io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(log, "e2e: "+format+"\n", args...)
}
