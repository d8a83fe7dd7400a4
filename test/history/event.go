// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Op is what an Event reports.
type Op string

// The first event is Run. A call has an event when it begins and another when it ends, with the same Event.Call.
const (
	Run Op = "run" // Event.Writes

	BeginWrite  Op = "beginWrite"  // Event.Digest, or Event.Deleted
	EndWrite    Op = "endWrite"    // Event.State, or Event.Failed
	Written     Op = "written"     // a write of which the server itself reports the order: Event.State, or Event.Deleted
	Snapshotted Op = "snapshotted" // a backup of the server was made
	RolledBack  Op = "rolledBack"  // the backup of the same Event.Call was restored

	BeginReference Op = "beginReference" // Event.Owner
	EndReference   Op = "endReference"
	BeginRelease   Op = "beginRelease" // Event.Owner
	EndRelease     Op = "endRelease"

	BeginGet   Op = "beginGet" // Event.Demanding, Event.Newest and Event.Try
	EndGet     Op = "endGet"   // Event.State, or Event.Error; and Event.Ended
	BeginRange Op = "beginRange"
	Yielded    Op = "yielded" // to the range of the same Event.Call: Event.State, or Event.Error
	EndRange   Op = "endRange"

	Requested    Op = "requested"    // a request of the library has arrived: Event.Verb
	Responded    Op = "responded"    // a request has ended: Event.Verb and Event.Code
	StreamOpened Op = "streamOpened" // on the server
	StreamClosed Op = "streamClosed"
	Foreign      Op = "foreign" // a request that no rule allows: Event.Text
	Dialed       Op = "dialed"

	FaultBegan Op = "faultBegan" // Event.Text is its name; Event.Objects, Event.Within and Event.Works
	FaultEnded Op = "faultEnded"
)

// Event is one line of a history. It holds no object data.
type Event struct {
	// State is what was written or read.
	State

	Time time.Time `json:"time"`
	Op   Op        `json:"op"`
	// Call joins the events of one call.
	Call uint64 `json:"call,omitempty"`
	// Object is the resource, namespace and name: "secrets/default/tls".
	Object string `json:"object,omitempty"`
	// Deleted is set for a deletion. Failed is set for a write that the server did not commit.
	Deleted bool `json:"deleted,omitempty"`
	Failed  bool `json:"failed,omitempty"`
	// Error is the class of an error: NotFound, NotSynced, NotRegistered, Canceled, or else the text of the error.
	Error string `json:"error,omitempty"`
	// Demanding is set for a Get with demands, which may return NotSynced although others return a state. Newest is
	// set if one of its demands is the newest state that was committed before it began, or a later one.
	Demanding bool `json:"demanding,omitempty"`
	Newest    bool `json:"newest,omitempty"`
	// Try is set for a TryGet, which does not wait for the read for a new owner.
	Try bool `json:"try,omitempty"`
	// Ended is set if the context of the Get had ended when it returned.
	Ended bool `json:"ended,omitempty"`
	// Owner identifies the owner of a reference. It may be empty: then each reference has an owner of its own.
	Owner string `json:"owner,omitempty"`
	// Verb and Code are those of a request to the server. Code is zero if there was no response.
	Verb string `json:"verb,omitempty"`
	Code int    `json:"code,omitempty"`
	// Text is the name of a fault, or describes a request.
	Text string `json:"text,omitempty"`
	// Objects are those that a fault affects. Empty: all. Partial is set for a fault of one of several API servers.
	Objects []string `json:"objects,omitempty"`
	Partial bool     `json:"partial,omitempty"`
	// Within is how soon after the end of a fault each object that it affects must be fresh.
	Within *metav1.Duration `json:"within,omitempty"`
	// Works is set if a verb works beside the fault by which each object that it affects can be read.
	Works *Works `json:"works,omitempty"`
	// Writes is set if the history has every write to the objects.
	Writes bool `json:"writes,omitempty"`
}

// Works says what is promised of an object while a fault lasts beside which a verb works.
type Works struct {
	// Fresh is how soon each state must be known that is written meanwhile, and that of before at first.
	Fresh metav1.Duration `json:"fresh"`
	// Answered is how soon a Get that waits must be answered.
	Answered metav1.Duration `json:"answered"`
	// After is for how long what other faults have taught may hold: nothing is promised for so long after the end of
	// one that has lasted.
	After metav1.Duration `json:"after"`
}

// String returns the event as JSON.
func (e Event) String() string {
	encoded, err := json.Marshal(e)
	if err != nil {
		return err.Error()
	}
	return string(encoded)
}

// The classes of errors that a Get returns.
const (
	NotFound      = "NotFound"
	NotSynced     = "NotSynced"
	NotRegistered = "NotRegistered"
	Canceled      = "Canceled"
)

// State is what a reader has seen of an object, without its data.
type State struct {
	// UID and Version are those of the object.
	UID     types.UID `json:"uid,omitempty"`
	Version string    `json:"version,omitempty"`
	// Digest identifies the content: see [Digest].
	Digest string `json:"digest,omitempty"`
	// Immutable is set if the object is.
	Immutable bool `json:"immutable,omitempty"`
}
