// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"os"
)

// Options says how a control plane differs from the one the package describes. The zero value is valid.
type Options struct {
	// DisableWatchList switches the server's feature gate WatchList off: sendInitialEvents is refused with 422.
	DisableWatchList bool

	// APIServerArgs are appended to the arguments of kube-apiserver, and win over those before them:
	// "--goaway-chance=0.02", "--http2-max-streams-per-connection=10", "--watch-cache-sizes=secrets#0".
	APIServerArgs []string

	// Log is told how a build gets on, and where a control plane runs. Default [os.Stderr].
	Log io.Writer
}

func (o Options) log() io.Writer {
	if o.Log == nil {
		return os.Stderr
	}
	return o.Log
}

// say writes a line of progress. Nothing depends on its arrival.
func say(log io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(log, "e2e: "+format+"\n", args...)
}
