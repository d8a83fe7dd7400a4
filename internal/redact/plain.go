// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"errors"
	"regexp"
	"unique"
)

// Makes a text fit to be shown.

var (
	// userinfo is what a URL has in front of its host, such as the password of a proxy.
	userinfo = regexp.MustCompile(`//[^/?#\s"]*@`)
	// unparsed are texts in front of what could not be parsed. Where an answer of HTTP/1.1 should begin, or a line of
	// its header, that may be a body: of the answer before on that connection, or of a server that omits a header.
	unparsed = regexp.MustCompile(`(malformed HTTP (?:response|status code|version)|` +
		`malformed MIME header(?: initial line| line|: missing colon)?)(?s:.+)`)
	// binary is unparsed, and no text: the record of another protocol, such as an alert of TLS.
	binary = regexp.MustCompile(`malformed HTTP response "\\x[01][0-9a-f](?:[^"\\]|\\x..|\\.){0,6}"$`)
	// urls are in front of quoted parts of a URL that could not be parsed: a proxy's, with its password, or that of a
	// redirect, which may name an object.
	urls = regexp.MustCompile(`parse "|proxy address "|Location header "`)
	// quotes are quoted texts. The last one may have been cut.
	quotes = regexp.MustCompile(`"(?:[^"\\]|\\.)*(?:"|$)`)
)

// plain returns err if its text can be shown as it is, or else an error with a text that can. errors.Is and errors.As
// find what err wraps, unless its text has a secret.
func plain(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	public := withoutSecrets(text)
	shown := stable(printable(public))
	parts, whole := short(err)
	switch {
	case shown == text && whole:
		return err
	case public == text && whole:
		return &hidden{text: unique.Make(shown), shown: err}
	case public == text:
		return &bounded{unique.Make(shown), parts}
	}
	return errors.New(shown)
}

// withoutSecrets returns a text without passwords, and without what may be a body.
func withoutSecrets(text string) string {
	if len(text) > 4*longestText { // a password is shorter than what is not shown of the rest
		text = text[:4*longestText]
	}
	if urls.MatchString(text) {
		text = quotes.ReplaceAllString(text, `"…"`)
	}
	text = userinfo.ReplaceAllString(text, "//")
	if binary.MatchString(text) {
		return text
	}
	return unparsed.ReplaceAllString(text, "$1")
}
