// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"strings"
)

// tailLines is how many lines of its output an error of a process has.
const tailLines = 20

// tail returns the last lines of a file, or the error as text.
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
