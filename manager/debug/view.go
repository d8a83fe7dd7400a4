// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/refwatch/refwatch/objectcache"
)

// The elements of the page, as plain Go. All that a page shows passes through g.Text, or through an attribute: these
// escape it. g.Raw is for what is a constant.

// render writes the page.
func (p page) render(w io.Writer) error {
	return h.Doctype(h.HTML(h.Lang("en"), p.head(), h.Body(
		h.Header(
			p.program(),
			h.P(h.ID("connection"), h.Role("status")),
			h.Button(h.Type("button"), h.ID("pause"), g.Attr("hidden"), h.Aria("pressed", "false"), g.Text("Pause")),
		),
		h.Main(p.causes(), p.summary(), p.form(), p.objects(), legend()),
		h.NoScript(h.Footer(g.Text("Scripts are off: the page is loaded again every ten seconds."))),
		h.Script(g.Raw(pageJS)),
	))).Render(w)
}

func (p page) head() g.Node {
	title := fmt.Sprintf("%s · %s", cmp.Or(p.Program.Title, p.Program.Name), p.Program.Host)
	if p.Problems > 0 {
		title = fmt.Sprintf("(%d) %s", p.Problems, title)
	}
	return h.Head(
		h.Meta(h.Charset("utf-8")),
		h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
		h.Meta(h.Name("color-scheme"), h.Content("light dark")),
		h.TitleEl(g.Text(title)),
		h.Link(h.Rel("icon"), h.Href("data:,")),
		h.NoScript(h.Meta(g.Attr("http-equiv", "refresh"), h.Content("10"))),
		h.StyleEl(g.Raw(pageCSS)),
	)
}

// program returns whose page it is.
func (p page) program() g.Node {
	program := p.Program
	var parts []string
	for _, part := range []string{program.Name, program.Package} {
		if part != "" && part != cmp.Or(program.Title, program.Name) {
			parts = append(parts, part)
		}
	}
	if program.Host != "" {
		parts = append(parts, "on "+program.Host)
	}
	parts = append(parts, "up "+p.Age(program.Started), "refwatch "+program.Version)
	return h.Div(h.ID("program"),
		h.H1(g.Text(cmp.Or(program.Title, program.Name))),
		h.P(g.Text(strings.Join(parts, " · "))),
	)
}

// causes returns what objects with a problem have in common.
func (p page) causes() g.Node {
	if len(p.Causes) == 0 {
		return h.Div(h.ID("causes"))
	}
	hidden, objects := p.Causes[min(len(p.Causes), maxCauses):], 0
	for _, cause := range hidden {
		objects += cause.Objects
	}
	return h.Section(h.ID("causes"), h.Class("card"), h.Aria("labelledby", "causes-title"),
		h.H2(h.ID("causes-title"), g.Text("Problems "), h.Span(g.Textf("of %d of %s", p.Problems, plural(p.Total, "object")))),
		h.Ul(
			g.Map(p.Causes[:len(p.Causes)-len(hidden)], p.cause),
			g.Iff(len(hidden) > 0, func() g.Node {
				return h.Li(link(p.Link("phase", anyProblem), g.Textf("and %d more", len(hidden))), g.Text(" of "+plural(objects, "object")))
			}),
		),
	)
}

func (p page) cause(c Cause) g.Node {
	only := query{Cause: c.Key, Sort: p.Query.Sort}
	return h.Li(
		link(only.with("", ""), h.Class(c.Problem.tone()), h.B(number(c.Objects)), g.Text(" × "+c.label())), g.Text(" "+short(c.text())),
		g.If(c.Reason == metav1.StatusReasonForbidden, g.Group{g.Text(" · "), h.A(h.Href(only.with("format", "roles")), g.Text("the Role"))}),
	)
}

// link returns a link that the script follows without loading the page.
func link(href string, children ...g.Node) g.Node {
	return h.A(h.Data("live", ""), h.Href(href), g.Group(children))
}

// number returns a number as a text.
func number(n int) g.Node { return g.Text(strconv.Itoa(n)) }

// summary returns the cards above the objects.
func (p page) summary() g.Node {
	headline := h.Span(h.Class("good"), g.Text("none with a problem"))
	if p.Problems > 0 {
		headline = link(p.Link("phase", anyProblem), h.Class(p.Causes[0].Problem.tone()), g.Textf("%d with a problem", p.Problems))
	}
	return h.Div(h.ID("summary"),
		h.Section(h.Class("card"), h.Aria("labelledby", "objects-title"),
			h.H2(h.ID("objects-title"), g.Text("Objects")),
			h.P(h.Class("headline"), h.Strong(number(p.Total)), g.Text(" referenced, "), headline),
			h.Ul(h.Class("chips"), g.Map(p.Phases, p.chip)),
		),
		g.Group(p.notes()),
		g.Map(p.Gates, p.gate),
		g.Map(p.Connections, p.connection),
	)
}

// chip returns the number of objects in a phase, if there are any.
func (p page) chip(c count) g.Node {
	if c.Objects == 0 {
		return nil
	}
	return h.Li(h.ID("phase-"+string(c.Phase)), link(p.Link("phase", string(c.Phase)), h.Class(toneOf(c.Phase)), h.Title(words[string(c.Phase)]),
		g.Text(phaseText(c.Phase)+" "), h.B(number(c.Objects))))
}

func card(id, title, name string, children ...g.Node) g.Node {
	return h.Section(h.Class("card"), h.ID(id), h.H2(g.Text(title+" "), h.Span(g.Text(name))), g.Group(children))
}

func (p page) notes() []g.Node {
	var cards []g.Node
	for i, note := range p.Notes {
		cards = append(cards, card("note-"+strconv.Itoa(i), "Note", note.Resource, h.P(h.Class("note warn"), g.Text(short(note.Text)))))
	}
	return cards
}

func (p page) gate(gate Gate) g.Node {
	status := g.Node(h.P(h.Class("headline"), h.Strong(h.Class("good"), g.Text("No outage"))))
	if gate.Cause != "" {
		status = g.Group{
			h.P(h.Class("headline"), h.Strong(h.Class("bad"), g.Text("Outage")),
				g.Textf(" for %s, last seen %s ago", p.Age(gate.OutageSince), p.Age(gate.CauseTime))),
			h.P(h.Class("cause"), g.Text(short(gate.Cause))),
		}
	}
	return card("gate-"+gate.Name, "Gate", gate.Name, status,
		h.Dl(
			term("Opening", strconv.Itoa(gate.Opening)), term("Window", strconv.Itoa(gate.Window)),
			term("Queued", strconv.Itoa(gate.Queued)), term("Paused", strconv.Itoa(gate.Paused)),
		),
		g.If(p.Unparked > 0 && gate.NotParked != "", h.P(h.Class("note"),
			g.Text("A stream could not be parked, and has a goroutine: "+short(gate.NotParked)))),
	)
}

// term returns a name, with its explanation, and a value.
func term(name, value string) g.Node {
	return h.Div(g.If(words[name] != "", h.Title(words[name])), h.Dt(g.Text(name)), h.Dd(g.Text(value)))
}

func (p page) connection(c Connection) g.Node {
	var oldest, failure string
	if c.Open > 0 {
		oldest = ", the oldest for " + p.Age(c.Oldest)
	}
	if c.LastError != "" {
		failure = "Last failure " + p.Age(c.LastErrorTime) + " ago: " + short(c.LastError)
	}
	return card("connection-"+c.Address, "Connections", c.Address,
		h.P(h.Class("headline"), h.Strong(number(c.Open)), g.Text(" open"+oldest)),
		h.Dl(
			term("Opened", strconv.Itoa(c.Opened)), term("Failed", strconv.Itoa(c.Failures)),
			term("Received", bytesText(c.BytesReceived)), term("Sent", bytesText(c.BytesSent)),
		),
		g.If(failure != "", h.P(h.Class("note"), g.Text(failure))),
	)
}

// form returns the fields of the query.
func (p page) form() g.Node {
	var phaseNames []string
	for _, phase := range phases {
		phaseNames = append(phaseNames, string(phase))
	}
	return h.Form(h.Method("get"), h.Role("search"), h.Aria("label", "Objects"),
		h.Label(g.Text("Filter "), h.Input(h.Type("search"), h.Name("filter"), h.Value(p.Query.Filter),
			h.Placeholder("name, owner, error…"), h.AutoComplete("off"), g.Attr("spellcheck", "false"))),
		h.Label(g.Text("Phase "), choice("phase", p.Query.Phase, append([]string{anyProblem}, phaseNames...), func(name string) string {
			if name == anyProblem {
				return "with a problem"
			}
			return phaseText(objectcache.Phase(name))
		})),
		h.Label(g.Text("Resource "), choice("resource", p.Query.Resource, p.Resources, func(name string) string { return name })),
		h.Input(h.Type("hidden"), h.Name("cause"), h.Value(p.Query.Cause)),
		h.Input(h.Type("hidden"), h.Name("sort"), h.Value(p.Query.Sort)),
		h.Button(h.ID("apply"), g.Text("Apply")),
	)
}

// choice returns a field with one of some values, or any.
func choice(name, selected string, values []string, text func(string) string) g.Node {
	return h.Select(h.Name(name), h.Option(h.Value(""), g.Text("all")), g.Map(values, func(value string) g.Node {
		return h.Option(h.Value(value), g.If(value == selected, h.Selected()), g.Text(text(value)))
	}))
}
