// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"cmp"
	"fmt"
	"io"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// objects returns the table of objects.
func (p page) objects() g.Node {
	found := fmt.Sprintf("%d objects", p.Total)
	switch {
	case p.Matching > len(p.Objects):
		found = fmt.Sprintf("The first %d of %d objects. Narrow the filter to see others; the JSON has all.", len(p.Objects), p.Matching)
	case p.Matching < p.Total:
		found = fmt.Sprintf("%d of %d objects", p.Matching, p.Total)
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
	if c.Link == "" {
		return h.Th(h.Scope("col"), g.Text(c.Title))
	}
	return h.Th(h.Scope("col"), h.Aria("sort", c.Direction), link(c.Link, g.Text(c.Title)))
}

// rows makes one row at a time, while it is written: many rows have many nodes.
func (p page) rows() g.Node {
	if len(p.Objects) == 0 {
		text := "No owner references an object."
		if p.Total > 0 {
			text = "No object matches."
		}
		return h.Tr(h.Td(h.ColSpan("6"), h.Class("empty"), g.Text(text)))
	}
	return g.NodeFunc(func(w io.Writer) error {
		for i := range p.Objects {
			if err := p.row(p.Objects[i]).Render(w); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p page) row(o Object) g.Node {
	contact, version := "never", "–"
	if !o.LastContact.IsZero() {
		contact = p.Age(o.LastContact)
	}
	if o.ResourceVersion != "" {
		version = o.ResourceVersion
	}
	return h.Tr(h.ID(rowID(o)),
		h.Td(p.phase(o)),
		h.Th(h.Scope("row"), h.Small(g.Text(o.Resource)), g.Text(" "), name(o.Namespace, o.Name)),
		h.Td(h.Class("number"), h.Data("label", "Last contact"), g.Text(contact),
			g.Iff(!o.NextRead.IsZero(), func() g.Node { return small("next read in " + p.Left(o.NextRead)) })),
		h.Td(h.Data("label", "Version"), g.Text(version),
			g.If(o.UID != "", g.Group{g.Text(" "), h.Small(h.Class("uid"), g.Text(string(o.UID)))})),
		h.Td(h.Data("label", "Owners"), owners(o.Owners)),
		h.Td(h.Class("problem"), p.problem(o)),
	)
}

// small returns a text of less weight, after a space.
func small(text string) g.Node { return g.Group{g.Text(" "), h.Small(g.Text(text))} }

// name returns a namespace and a name, between which a line may be broken.
func name(namespace, name string) g.Node {
	if namespace == "" {
		return g.Text(name)
	}
	return g.Group{g.Text(namespace + "/"), h.Wbr(), g.Text(name)}
}

func (p page) phase(o Object) g.Node {
	look, stream := p.Look(o), streamText(o)
	return g.Group{
		h.Span(h.Class("pill "+look.Tone), g.Text(look.Text)),
		g.If(look.Phase != "", small(string(look.Phase))),
		g.If(stream != "", small(stream)),
	}
}

func owners(all []Owner) g.Node {
	if len(all) <= 2 {
		return h.Ul(g.Map(all, owner))
	}
	list := g.Group(g.Map(all[:min(len(all), maxOwners)], owner))
	if hidden := len(all) - maxOwners; hidden > 0 {
		list = append(list, h.Li(g.Textf("%d more in the JSON", hidden)))
	}
	return h.Details(h.Summary(g.Textf("%d owners", len(all))), h.Ul(list))
}

func owner(o Owner) g.Node {
	return h.Li(
		g.If(o.Kind != "", g.Group{h.Small(g.Text(o.Kind)), g.Text(" ")}),
		name(o.Namespace, cmp.Or(o.Name, string(o.UID))),
	)
}

// problem returns why an object needs attention, and what is known about it.
func (p page) problem(o Object) g.Node {
	var nodes g.Group
	text, tone := map[Problem]string{NotUpdated: "Changes do not arrive", Absent: "Not on the server", NotSynced: "Not synced"}[o.Problem], "warn"
	if o.Problem == Failing {
		tone = "bad"
	}
	switch {
	case o.Failures == 1:
		text = "1 failed attempt"
	case o.Failures > 1:
		text = strconv.Itoa(o.Failures) + " failed attempts"
	}
	if o.Problem != "" {
		nodes = append(nodes, h.Strong(h.Class(tone), g.Text(text)))
	}
	switch {
	case o.LastError == "":
	case o.Failures > 0:
		nodes = append(nodes, h.P(g.Text(short(o.LastError)), small(p.Age(o.LastErrorTime)+" ago")))
	default:
		nodes = append(nodes, h.Details(h.Summary(g.Text("Earlier error, "+p.Age(o.LastErrorTime)+" ago")), g.Text(short(o.LastError))))
	}
	if o.Waiting != "" {
		nodes = append(nodes, h.P(h.Small(g.Text(short(o.Waiting)))))
	}
	if silence := p.longAge(o.AskedAt); silence != "" {
		nodes = append(nodes, h.P(h.Small(g.Text("no answer for "+silence))))
	}
	if work := p.longAge(o.TransformingSince); work != "" {
		nodes = append(nodes, h.P(h.Small(g.Text("the transform has not returned for "+work))))
	}
	return nodes
}
