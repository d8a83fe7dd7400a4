// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"os"
	"strconv"
	"time"
)

// healthTimeouts returns how long a server may be silent before it gets a PING, and how
// long it may take to answer. They are those of client-go's transport, with its
// environment variables (k8s.io/apimachinery/pkg/util/net). Without the first, nothing
// is checked.
func healthTimeouts() (silence, answer time.Duration) {
	return seconds("HTTP2_READ_IDLE_TIMEOUT_SECONDS", 30), seconds("HTTP2_PING_TIMEOUT_SECONDS", 15)
}

func seconds(variable string, otherwise int) time.Duration {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return time.Duration(n) * time.Second
	}
	return time.Duration(otherwise) * time.Second
}
