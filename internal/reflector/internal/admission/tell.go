// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// Outage is the begin or the end of an outage.
type Outage struct {
	Server   bool   // of the server; else of the resource
	Resource string // empty if Server is set
	Kind     Kind   // of the failures
	Cause    error  // the last failure before the begin
	Since    time.Time
	// Until is when the outage ended: zero for a begin. By is the kind of the answer that ended it. An answer that is
	// no success ends an outage of the server, for the server can be reached.
	Until time.Time
	By    Kind
}

// change is the begin or the end of an outage, and the observer that it is reported to.
type change struct {
	observer Observer
	outage   Outage
}

// takeReports notifies the observers of the changes of which they do not know yet, and returns what reports these.
func (s *server) takeReports() (reports []func()) {
	for _, next := range s.changes {
		reports = append(reports, next.observer.OutageChanged(next.outage))
	}
	s.changes = nil
	return reports
}

// tellBegin tells the observer of m that its attempt has begun the outage, which is that of the server or of m's
// resource. If an outage has ended because no member could end it, and no answer has come since then, the new one is
// the same: nobody is told.
func (s *server) tellBegin(o *outage, m *member) {
	if o.told != nil {
		return
	}
	o.told = &Outage{Server: o == &s.outage, Kind: o.kind, Cause: o.cause, Since: o.since.Time()}
	if !o.told.Server {
		o.told.Resource = m.resource.name
	}
	if m.observer != nil {
		s.changes = append(s.changes, change{m.observer, *o.told})
	}
}

// tellEnd tells the observer of m that an answer of that kind to its attempt has ended the outage, if observers were
// told of one.
func (s *server) tellEnd(o *outage, m *member, by Kind, now moment.Moment) {
	if o.told == nil || by == o.told.Kind {
		return
	}
	end := *o.told
	end.Until, end.By = now.Time(), by
	o.told = nil
	if m.observer != nil {
		s.changes = append(s.changes, change{m.observer, end})
	}
}
