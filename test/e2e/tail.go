// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"strings"
)

// tailLines is how much of its output is told when a process fails.
const tailLines = 20

// tail returns the last lines of a file, or says why it cannot.
func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return lastLines(string(content))
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
