// SPDX-License-Identifier: Apache-2.0

package redact

import "regexp"

// The text of an error is the same as long as its cause is: a program may copy it into the status of an object, and
// write that when it changes.

// changing are the parts of texts that differ each time for the same cause. The fields of the error keep them.
var changing = []struct {
	part *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`[^\s"]+:\d+->`), ""},                                      // of net.OpError: the port of this end
	{regexp.MustCompile(`stream ID \d+; `), ""},                                    // of HTTP/2
	{regexp.MustCompile(`; received from peer$`), "; the server reset the stream"}, // as reflector/transport says it
	{regexp.MustCompile(`LastStreamID=\d+, `), ""},
	{regexp.MustCompile(`current time \S+ is `), "the current time is "}, // of crypto/x509
	{regexp.MustCompile(`(resource version): \d+, current: \d+`), "$1"},  // of kube-apiserver
	{regexp.MustCompile(`(resource version): \d+ \(\d+\)`), "$1"},
	{regexp.MustCompile(`\((get|list|watch) (\S+) \S+\)$`), "($1 $2)"},                                 // of client-go: the name of another object, in an outage
	{regexp.MustCompile(`\b[0-9A-Fa-f]{8}-([0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}\b`), "…"},                // the UUID of a request
	{regexp.MustCompile(`(?i)\b((request|trace|audit|correlation)[ _-]?id)(["': =]+)[\w-]+`), "$1$3…"}, // its ID
	{regexp.MustCompile(`\b\d+\.\d+(ns|µs|us|ms|s)\b`), "…"},                                           // a time that was measured
}

// stable returns text without the parts that differ each time.
func stable(text string) string {
	for _, c := range changing {
		text = c.part.ReplaceAllString(text, c.with)
	}
	return text
}
