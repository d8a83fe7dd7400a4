// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"regexp"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/refwatch/refwatch/objectcache"
)

// glossary explains the words of the page: a legend shows it, and so do titles where the words are used.
var glossary = []struct{ word, meaning string }{
	{"Serving", "Get returns the object from memory, and its changes arrive."},
	{"NotUpdated", "Get returns the object from memory, and its changes do not arrive."},
	{"Absent", "Owners reference the object, and the server does not have it: Get returns NotFound."},
	{"Failing", "Get returns an error: there is no state in memory, and the last attempts to read one failed."},
	{"Syncing", "Get waits: the state is being read."},
	{"Pending", "Nothing is read before a Get asks for the object, or before Run is called."},
	{"Idle", "No Get has asked for the object for long. The next one reads it."},
	{"Stopped", "Run has ended."},
	{"Changed", "when the state in memory was read for the first time, or last changed"},
	{"Last contact", "when the server last sent anything about the object: a read, an event or a bookmark"},
	{"stream", "a watch of this object only"},
	{"parked stream", "a stream that has no goroutine while it is quiet"},
	{"polled", "the object is read again from time to time, because watches of it fail"},
	{"Gate", "admits requests to one server: a bounded number at a time, and one at a time in an outage"},
	{"Opening", "requests that the Gate has admitted and the server has not answered"},
	{"Window", "how many requests the Gate admits at a time"},
	{"Queued", "objects that wait until the Gate admits them"},
	{"Paused", "objects that wait after a failure"},
}

// words has the meanings of the glossary.
var words = func() map[string]string {
	all := map[string]string{}
	for _, entry := range glossary {
		all[entry.word] = entry.meaning
	}
	return all
}()

// legend returns the glossary.
func legend() g.Node {
	var terms g.Group
	for _, entry := range glossary {
		terms = append(terms, h.Div(h.Dt(g.Text(phaseText(objectcache.Phase(entry.word)))), h.Dd(g.Text(entry.meaning))))
	}
	return h.Details(h.ID("legend"), h.Summary(g.Text("What the words mean")), h.Dl(terms))
}

// phaseTexts are the phases as the page shows them: what a Get returns.
var phaseTexts = map[objectcache.Phase]string{
	"Serving": "serving", "NotUpdated": "serving, not updated", "Absent": "absent",
	"Failing": "nothing to serve: failing", "Syncing": "nothing to serve: syncing", "Pending": "nothing to serve: pending",
	"Idle": "nothing to serve: idle", "Stopped": "nothing to serve: stopped",
}

func phaseText(phase objectcache.Phase) string {
	if text, ok := phaseTexts[phase]; ok {
		return text
	}
	return string(phase)
}

// problemTexts are the problems as the page shows them.
var problemTexts = map[Problem]string{Failing: "failing", NotSynced: "not synced", Absent: "absent", NotUpdated: "changes do not arrive", Polled: "polled"}

// tone is the look of a problem: red only if there is nothing to serve.
func (p Problem) tone() string {
	if p == Failing {
		return "bad"
	}
	return "warn"
}

// capital is where a word begins in a reason such as TooManyRequests.
var capital = regexp.MustCompile(`([a-z])([A-Z])`)

// label returns what kind of cause it is, in words.
func (c Cause) label() string {
	if c.Reason == "" {
		return problemTexts[c.Problem] + ":"
	}
	return strings.ToLower(capital.ReplaceAllString(string(c.Reason), "$1 $2")) + ":"
}

// text returns the text of the cause, without what its label says.
func (c Cause) text() string {
	_, text := cutReason(c.Text)
	return text
}

// cutReason returns what a text says after "… is forbidden: ", and whether it has that.
func cutReason(text string) (reason, rest string) {
	const forbidden = " is forbidden: "
	if _, after, ok := strings.Cut(text, forbidden); ok {
		return "forbidden: ", after
	}
	return "", text
}
