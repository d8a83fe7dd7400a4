// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"regexp"
	"slices"
	"strings"
)

// The text of an error is the same as long as its cause is: a program may copy it into the status of an object, and
// write that when it changes.

// changing are the parts of texts that differ each time for the same cause. The fields of the error keep them. What
// begins within double quotes stays: it is the name of a user, which may be a UUID, or of an object.
var changing = []struct {
	in   []string // a text that has none of these has no such part: most texts have none, and a search costs little
	part *regexp.Regexp
	with string
}{
	{[]string{"->"}, regexp.MustCompile(`[^\s"]+:\d+->`), ""},                                                        // of net.OpError: the port of this end
	{[]string{"stream ID "}, regexp.MustCompile(`stream ID \d+; `), ""},                                              // of HTTP/2
	{[]string{"LastStreamID="}, regexp.MustCompile(`LastStreamID=\d+, `), ""},                                        // of HTTP/2
	{[]string{"; received from peer"}, regexp.MustCompile(`; received from peer$`), "; the server reset the stream"}, // as internal/h2 says it
	{[]string{"current time "}, regexp.MustCompile(`current time \S+ is `), "the current time is "},                  // of crypto/x509
	{[]string{"resource version: "}, regexp.MustCompile(`(resource version): \d+(, current: \d+| \(\d+\))`), "$1"},   // of kube-apiserver
	// Of client-go. In an outage it may be the failure of another object, also of another kind.
	{[]string{"the server "}, regexp.MustCompile(`((?:has prevented the request from succeeding|is currently unable to handle the request|` +
		`but may still be processing the request|asked us to try again later|asked for the client to provide credentials)) ` +
		`\((?:get|list|watch) \S+(?: \S+)?\)$`), "$1"},
	// The id of a request.
	{[]string{"equest", "race", "udit", "orrelation"}, regexp.MustCompile(`\b((?:[Rr]equest|[Tt]race|[Aa]udit|[Cc]orrelation)[ _-]?(?:id|Id|ID)["': =]+)[\w-]*\d[\w-]*`), "$1…"},
	{[]string{")"}, regexp.MustCompile(`\([0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}\)$`), "(…)"},
	// A time that was measured.
	{[]string{"after "}, regexp.MustCompile(`\bafter \d+\.\d+(?:ns|µs|us|ms|s)\b`), "after …"},
}

// stable returns text without the parts that differ each time.
func stable(text string) string {
	for _, c := range changing {
		if slices.ContainsFunc(c.in, func(part string) bool { return strings.Contains(text, part) }) {
			text = replaceUnquoted(c.part, text, c.with)
		}
	}
	return text
}

// replaceUnquoted is part.ReplaceAllString of the matches that do not begin within double quotes.
func replaceUnquoted(part *regexp.Regexp, text, with string) string {
	var b []byte
	done := 0
	for _, match := range part.FindAllStringSubmatchIndex(text, -1) {
		if isQuoted(text, match[0]) {
			continue
		}
		b = append(b, text[done:match[0]]...)
		b = part.ExpandString(b, with, text, match)
		done = match[1]
	}
	if done == 0 {
		return text
	}
	return string(append(b, text[done:]...))
}

// isQuoted reports whether double quotes are open at a place of text.
func isQuoted(text string, at int) bool {
	open := false
	for i := 0; i < at; i++ {
		switch {
		case text[i] == '"':
			open = !open
		case text[i] == '\\' && open:
			i++ // an escaped one
		}
	}
	return open
}
