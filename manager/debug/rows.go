// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// objects returns the table of objects.
func (p page) objects() g.Node {
	found := plural(p.Total, "object")
	switch {
	case p.Matching > len(p.Objects):
		found = fmt.Sprintf("The first %d of %s. Narrow the filter to see others; the JSON has all.", len(p.Objects), plural(p.Matching, "object"))
	case p.Matching < p.Total:
		found = fmt.Sprintf("%d of %s", p.Matching, plural(p.Total, "object"))
	}
	return h.Div(h.ID("objects"),
		h.P(h.Class("found"), h.Span(h.Role("status"), g.Text(found)), g.Text(" "),
			g.If(p.Matching < p.Total, link("?", g.Text("Show all"))), g.Text(" "),
			h.A(h.Href(p.Link("format", "json")), g.Text("JSON")), g.Text(" "),
			h.A(h.Href(p.Link("format", "roles")), g.Text("Roles"))),
		h.Table(
			h.Caption(g.Text("Referenced objects")),
			h.THead(h.Tr(g.Map(p.Columns(), heading))),
			h.TBody(p.rows()),
		),
	)
}

func heading(c column) g.Node {
	title := g.If(words[c.Title] != "", h.Title(words[c.Title]))
	if c.Link == "" {
		return h.Th(h.Scope("col"), title, g.Text(c.Title))
	}
	return h.Th(h.Scope("col"), h.Aria("sort", c.Direction), title, link(c.Link, g.Text(c.Title)))
}

// rows makes one row at a time, while it is written: many rows have many nodes.
func (p page) rows() g.Node {
	if len(p.Objects) == 0 {
		text := "No owner references an object."
		switch {
		case p.Query.Cause != "":
			text = "No object that matches has this cause any more."
		case p.Total > 0:
			text = "No object matches."
		}
		return h.Tr(h.Td(h.ColSpan("7"), h.Class("empty"), g.Text(text)))
	}
	return g.NodeFunc(func(w io.Writer) error {
		for i := range p.Objects {
			if err := p.row(&p.Objects[i]).Render(w); err != nil {
				return err
			}
		}
		return nil
	})
}

// row is one line on a desktop. The rest is in the details of its last cell.
func (p page) row(o *Object) g.Node {
	return h.Tr(h.ID(rowID(o)),
		h.Td(p.phase(o)),
		h.Th(h.Scope("row"), h.Title(o.Key()), h.Small(g.Text(o.Resource)), g.Text(" "), name(o.Namespace, o.Name)),
		h.Td(h.Class("number"), h.Data("label", "Changed"), p.ago(o.ChangedAt, "–")),
		h.Td(h.Class("number"), h.Data("label", "Last contact"), p.ago(o.LastContact, "never")),
		h.Td(h.Class("number"), h.Data("label", "Version"), g.Text(cmp.Or(o.ResourceVersion, "–"))),
		h.Td(h.Class("owners"), h.Data("label", "Owners"), firstOwner(o.Owners)),
		h.Td(h.Class("problem"), h.Details(
			h.Summary(g.If(o.Problem != "", h.Class(o.Problem.tone())), g.Text(cmp.Or(p.problem(o), "details"))),
			p.details(o),
		)),
	)
}

// ago returns how long ago a time was, with the time itself as the title, or another text for no time.
func (p page) ago(t time.Time, none string) g.Node {
	if t.IsZero() {
		return g.Text(none)
	}
	return h.Time(h.DateTime(t.Format(time.RFC3339)), h.Title(t.Format(time.RFC3339)), g.Text(p.Age(t)+" ago"))
}

// name returns a namespace and a name, between which a line may be broken.
func name(namespace, name string) g.Node {
	if namespace == "" {
		return g.Text(name)
	}
	return g.Group{g.Text(namespace + "/"), h.Wbr(), g.Text(name)}
}

func (p page) phase(o *Object) g.Node {
	tone, text := look(o)
	return g.Group{
		h.Span(h.Class("pill "+tone), h.Title(words[string(o.Phase)]), g.Text(text)),
		g.Iff(o.Problem == NotUpdated, func() g.Node {
			return g.Group{g.Text(" "), h.Small(g.Text("since "+p.clock(o.NotUpdatedSince)+" ("), p.ago(o.NotUpdatedSince, ""), g.Text(")"))}
		}),
	}
}

// clock returns a time of the last day without its date.
func (p page) clock(t time.Time) string {
	if p.Time.Sub(t) < 24*time.Hour {
		return t.Format("15:04")
	}
	return t.Format("2 Jan 15:04")
}

// firstOwner returns one of the owners, and how many there are.
func firstOwner(all []Owner) g.Node {
	if len(all) == 0 {
		return g.Text("–")
	}
	return g.Group{g.If(len(all) > 1, h.B(g.Textf("%d: ", len(all)))), owner(all[0])}
}

func owner(o Owner) g.Node {
	return h.Span(h.Title(o.String()),
		g.If(o.Kind != "", g.Group{h.Small(g.Text(o.Kind)), g.Text(" ")}),
		name(o.Namespace, cmp.Or(o.Name, string(o.UID))),
	)
}

// problem returns why an object needs attention, and what takes long; empty if nothing does.
func (p page) problem(o *Object) string {
	var parts []string
	reason, text := cutReason(o.LastError)
	switch {
	case o.Problem == Absent:
		parts = append(parts, absenceText(o.Reason))
	case o.Problem == "":
	case o.Failures > 0 && o.LastError != "":
		parts = append(parts, short(reason+text))
	case o.waits != "":
		parts = append(parts, short(o.waits))
	default:
		parts = append(parts, problemTexts[o.Problem])
	}
	if silence := p.longAge(o.AskedAt); silence != "" {
		parts = append(parts, "no answer for "+silence)
	}
	return strings.Join(parts, "; ")
}

// details returns what the cells of a row have no room for.
func (p page) details(o *Object) g.Node {
	var terms g.Group
	add := func(name string, values ...g.Node) {
		terms = append(terms, h.Div(h.Dt(g.Text(name)), h.Dd(values...)))
	}
	if o.Failures > 0 {
		add("Failing", g.Text(plural(o.Failures, "failed attempt")))
	}
	if o.LastError != "" {
		title := "Last error"
		if o.Failures == 0 {
			title = "Earlier error"
		}
		add(title, g.Text(short(o.LastError)+", "), p.ago(o.LastErrorTime, ""))
	}
	if o.waits != "" {
		add("Waiting", g.Text(short(o.waits)))
	}
	if stream := streamText(o); stream != "" {
		add("Stream", h.Title(words[stream]), g.Text(stream))
	}
	if !o.NextRead.IsZero() {
		add("Next read", g.Text("in "+p.Left(o.NextRead)))
	}
	for _, moment := range []struct {
		name string
		at   time.Time
	}{{"Changed", o.ChangedAt}, {"Last contact", o.LastContact}, {"Not updated since", o.NotUpdatedSince}} {
		if !moment.at.IsZero() {
			add(moment.name, g.Text(moment.at.Format(time.RFC3339)))
		}
	}
	if o.UID != "" {
		add("UID", g.Text(string(o.UID)))
	}
	add(plural(len(o.Owners), "owner"), h.Ul(
		g.Map(o.Owners[:min(len(o.Owners), maxOwners)], func(o Owner) g.Node { return h.Li(owner(o)) }),
		g.If(len(o.Owners) > maxOwners, h.Li(g.Textf("%d more in the JSON", len(o.Owners)-maxOwners))),
	))
	return h.Dl(terms)
}
