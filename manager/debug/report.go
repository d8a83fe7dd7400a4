// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
)

// Report is the JSON document. It holds no object data.
type Report struct {
	// Time is when the report was made.
	Time time.Time `json:"time"`
	// Objects are the referenced objects that match the query, in its order.
	Objects []Object `json:"objects"`
	// Gates are those of [Options].Gates, sorted by name.
	Gates []Gate `json:"gates"`
	// Connections are those of [Options].Connections, sorted by address.
	Connections []Connection `json:"connections"`
	// Notes are those of sources as a whole, sorted by source.
	Notes []Note `json:"notes"`
	// Program is the process.
	Program Program `json:"program"`
	// Causes are those of all objects with a problem, whatever the query. Those that need attention come first.
	Causes []Cause `json:"causes"`
}

// Note is what is noteworthy of a source as a whole.
type Note struct {
	// Resource is the name of the source in [Options].Sources.
	Resource string `json:"resource"`
	Text     string `json:"text"`
}

// Object is the status of one object. The fields without a comment are those of
// [objectcache.Status].
type Object struct {
	// Resource is the name of the object's source in [Options].Sources.
	Resource  string            `json:"resource"`
	Namespace string            `json:"namespace,omitempty"`
	Name      string            `json:"name"`
	Phase     objectcache.Phase `json:"phase"`
	// Problem is why the object needs attention; empty if it does not.
	Problem Problem `json:"problem,omitempty"`
	// Cause is the key of the object's [Cause]; empty without a problem.
	Cause string `json:"cause,omitempty"`
	// Stream is how changes of the object arrive.
	Stream objectcache.StreamType `json:"stream"`
	// Reason is why it has no stream; empty if it has one, or is being read.
	Reason          objectcache.Reason `json:"reason,omitempty"`
	Parked          bool               `json:"parked"`
	Synced          bool               `json:"synced"`
	Exists          bool               `json:"exists"`
	UID             types.UID          `json:"uid,omitempty"`
	ResourceVersion string             `json:"resourceVersion,omitempty"`
	LastContact     time.Time          `json:"lastContact,omitzero"`
	// AgeSeconds is the time since LastContact; nil if there was none.
	AgeSeconds      *float64  `json:"ageSeconds,omitempty"`
	NotUpdatedSince time.Time `json:"notUpdatedSince,omitzero"`
	ChangedAt       time.Time `json:"changedAt,omitzero"`
	NextRead        time.Time `json:"nextRead,omitzero"`
	Waiting         string    `json:"waiting,omitempty"`
	AskedAt         time.Time `json:"askedAt,omitzero"`
	Failures        int       `json:"failures"`
	LastError       string    `json:"lastError,omitempty"`
	LastErrorTime   time.Time `json:"lastErrorTime,omitzero"`
	// Owners reference the object.
	Owners []Owner `json:"owners"`

	waits string // Waiting, and for how long, as the page shows it
}

// Problem is why an object needs attention.
type Problem string

const (
	// Failing: there is nothing to serve, and the last attempts to read the object failed.
	Failing Problem = "Failing"
	// NotSynced: Get waits for the state of the object, or for a newer one.
	NotSynced Problem = "NotSynced"
	// NotUpdated: the object is served, or its absence is, and changes of it do not arrive.
	NotUpdated Problem = "NotUpdated"
	// Polled: lists or GETs bring the changes of the object, because watches fail.
	Polled Problem = "Polled"
	// Absent: owners reference the object, but the server does not have it.
	Absent Problem = "Absent"
)

// Owner references an object. Kind, Namespace and Name are empty if the source is a
// store, which has only the UIDs of owners.
type Owner struct {
	Kind      string    `json:"kind,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	UID       types.UID `json:"uid,omitempty"`
}

// Gate is the status of a Gate.
type Gate struct {
	// Name is that in [Options].Gates.
	Name string `json:"name"`
	// Opening is how many streams are being opened, and Window how many of healthy objects may be at a time.
	// Queued is how many objects wait for their turn, and Paused how many wait out a pause after a failure.
	Opening int `json:"opening"`
	Window  int `json:"window"`
	Queued  int `json:"queued"`
	Paused  int `json:"paused"`
	// Cause is why no reflector reaches the server, or a resource; empty if they do.
	// CauseTime is when that was last seen, and OutageSince when it was noticed.
	Cause       string    `json:"cause,omitempty"`
	CauseTime   time.Time `json:"causeTime,omitzero"`
	OutageSince time.Time `json:"outageSince,omitzero"`
	// NotParked is why the last stream that could not be parked has a goroutine; empty if
	// there was no such stream. That stream may have ended.
	NotParked string `json:"notParked,omitempty"`
	// Connections are what has become of connections of watches; nil if nothing was counted.
	Connections *GateConnections `json:"connections,omitempty"`
}

// GateConnections are the counts of Gate.Connections that are not 0.
type GateConnections struct {
	// Resets and GoAways count the frames RST_STREAM and GOAWAY of servers, by code.
	Resets  map[string]uint64 `json:"resets,omitempty"`
	GoAways map[string]uint64 `json:"goAways,omitempty"`
	// Left counts the connections that take no new streams any more.
	Left map[string]uint64 `json:"left,omitempty"`
}

// String returns "kind namespace/name", or the UID of an owner without a name.
func (o Owner) String() string {
	name := o.Name
	switch {
	case name == "":
		return string(o.UID)
	case o.Namespace != "":
		name = o.Namespace + "/" + name
	}
	if o.Kind == "" {
		return name
	}
	return o.Kind + " " + name
}

// Key returns "namespace/name", or the name of a cluster-scoped object.
func (o Object) Key() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}
