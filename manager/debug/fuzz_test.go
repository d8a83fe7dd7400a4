// SPDX-License-Identifier: Apache-2.0

package debug_test

import (
	"errors"
	"iter"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/html"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/debug"
	"github.com/refwatch/refwatch/objectcache"
)

// FuzzPage puts a text into every place of the page that is not a constant. A browser must find it there, unchanged,
// and the same elements and attributes as with a harmless text.
func FuzzPage(f *testing.F) {
	for _, seed := range []string{
		"plain", "a b", "<b>", "</td></tr></table><script>alert(1)</script>", `"`, `'`, `" onclick="alert(1)`, `' onclick='alert(1)`,
		"`${alert(1)}`", "&", "&amp;", "&lt;script&gt;", "&#60;script>", "&lt", "]]>", "<!--", "-->", "<![CDATA[", "</title>", "</style>",
		"</script>", "<plaintext>", "javascript:alert(1)", "?a=b&c=d#e", "%22%3e", "+", "%", "//example.com", "\\", "{{.}}",
		"\x00", "\xff<", "\xc0\xbc", "\u2028", "\ufeff", "\u202e", "\r\n", "\t", "=", "é<", "a/b", "-sort",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text = strings.TrimSpace(text); text == "" || len(text) > 200 || strings.Contains(text, "forbidden") {
			t.Skip() // nothing is shown, or only a part
		}
		synctest.Test(t, func(t *testing.T) {
			const harmless = "qqq"
			want, got := parsePage(t, harmless), parsePage(t, text)
			compareNodes(t, want, got, func(want string, isLink bool) string {
				if isLink {
					return strings.ReplaceAll(want, harmless, url.QueryEscape(text))
				}
				return strings.ReplaceAll(want, harmless, asShown(text))
			})
		})
	})
}

// asShown returns what a browser makes of a text, however it is escaped: one kind of line ends, and no NUL.
func asShown(text string) string {
	return strings.NewReplacer("\x00", "\ufffd", "\r\n", "\n", "\r", "\n").Replace(text)
}

// compareNodes compares two trees. texts returns the text that is wanted in place of one of the tree want.
func compareNodes(t *testing.T, want, got *html.Node, texts func(string, bool) string) {
	t.Helper()
	if got == nil || want.Type != got.Type || want.DataAtom != got.DataAtom || len(want.Attr) != len(got.Attr) {
		t.Fatalf("got the node %+v, want one as %+v", got, want)
	}
	if data := texts(want.Data, false); data != got.Data {
		t.Fatalf("got %q, want %q", got.Data, data)
	}
	for i, attribute := range want.Attr {
		value := texts(attribute.Val, attribute.Key == "href")
		if got.Attr[i].Key != attribute.Key || got.Attr[i].Val != value {
			t.Fatalf("got the attribute %s=%q, want %s=%q", got.Attr[i].Key, got.Attr[i].Val, attribute.Key, value)
		}
	}
	other := got.FirstChild
	for child := range want.ChildNodes() {
		compareNodes(t, child, other, texts)
		other = other.NextSibling
	}
	if other != nil {
		t.Fatalf("got the node %+v, want no more", other)
	}
}

// ownedSource is a source with owners by name, and a note.
type ownedSource struct {
	source

	text string
}

func (s ownedSource) Notes() []string { return []string{s.text} }
func (s ownedSource) Owners() iter.Seq[manager.Owner] {
	return func(yield func(manager.Owner) bool) { yield(s.owner()) }
}

func (s ownedSource) owner() manager.Owner {
	return manager.Owner{Kind: s.text, Namespace: s.text, Name: s.text, UID: types.UID(s.text)}
}

// parsePage returns the tree of a page with a text in all places.
func parsePage(t *testing.T, text string) *html.Node {
	t.Helper()
	secrets := ownedSource{text: text}
	failing := object(text, objectcache.PhaseFailing, secrets.owner().ID(), "another-owner", "a-third-owner")
	failing.Key.Namespace, failing.UID, failing.ResourceVersion = text, types.UID(text), text
	failing.LastError, failing.Waiting = errors.New(text), errors.New(text)
	recovered := object("recovered", objectcache.PhaseServing)
	recovered.LastError, recovered.LastErrorTime = errors.New(text), time.Now()
	secrets.source = source{failing, recovered}
	handler := newHandler(t, debug.Options{
		Sources:     map[string]debug.Source{text: secrets},
		Gates:       map[string]*objectcache.Gate{text: objectcache.NewGate(objectcache.GateOptions{})},
		Connections: dialed(text),
	})
	page := get(handler, "?filter="+url.QueryEscape(text)+"&resource="+url.QueryEscape(text)).Body.String()
	if count := strings.Count(page, `<tr id="o-`); count != 2 {
		t.Fatalf("got %d rows, want 2", count)
	}
	tree, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
