// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	codeSpan   = regexp.MustCompile("`[^`]*`")
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)(?: "[^"]*")?\)|<img[^>]* src="([^"]+)"`)
	heading    = regexp.MustCompile(`^#+ +(.*)$`)
	markup     = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Each relative link leads to a file of the repository, and each anchor to a heading.
func TestLinks(t *testing.T) {
	anchors := map[string]map[string]bool{}
	all := pages(t)
	for _, p := range all {
		anchors[p.path] = anchorsOf(p)
	}
	links := 0
	for _, p := range all {
		for _, l := range p.prose {
			for _, match := range linkTarget.FindAllStringSubmatch(codeSpan.ReplaceAllString(l.text, "``"), -1) {
				target := match[1] + match[2]
				if strings.Contains(target, "://") {
					continue
				}
				links++
				if problem := checkLink(p.path, target, anchors); problem != "" {
					t.Errorf("%s:%d: the link to %s: %s", p.path, l.number, target, problem)
				}
			}
		}
	}
	if links < 50 {
		t.Errorf("links: got %d, want 50 or more", links)
	}
}

func checkLink(from, target string, anchors map[string]map[string]bool) (problem string) {
	file, anchor, hasAnchor := strings.Cut(target, "#")
	to := from
	if file != "" {
		to = path.Join(path.Dir(from), file)
	}
	switch {
	case !exists(to):
		return "no such file"
	case hasAnchor && !anchors[to][anchor]:
		return "no such heading"
	}
	return ""
}

// anchorsOf returns the anchors that the headings of a page get.
func anchorsOf(p page) map[string]bool {
	anchors := map[string]bool{}
	for _, l := range p.prose {
		match := heading.FindStringSubmatch(l.text)
		if match == nil {
			continue
		}
		text := markup.ReplaceAllString(match[1], "$1")
		slug := strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(text), ""), " ", "-")
		unique := slug
		for n := 1; anchors[unique]; n++ {
			unique = fmt.Sprintf("%s-%d", slug, n)
		}
		anchors[unique] = true
	}
	return anchors
}
