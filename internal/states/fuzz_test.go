// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"errors"
	"math/big"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/states"
)

// number returns a resource version as a number, and nil if it is none.
func number(version string) *big.Int {
	if !regexp.MustCompile(`^[1-9][0-9]*$`).MatchString(version) {
		return nil
	}
	n, _ := new(big.Int).SetString(version, 10)
	return n
}

// FuzzVersions compares resource versions as numbers of any length.
func FuzzVersions(f *testing.F) {
	for _, version := range []string{"", "0", "1", "9", "10", "01", "-1", "+1", "1e3", " 1", "1\n", "٣", "18446744073709551616", "abc"} {
		f.Add(version, "10")
		f.Add("18446744073709551615", version)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, version := range []string{a, b} {
			if err := states.CheckVersion(version); (err == nil) != (number(version) != nil) || err != nil && !errors.Is(err, cache.ErrMalformed) {
				t.Errorf("CheckVersion(%q): got %v", version, err)
			}
		}
		got, err := states.CompareVersions(a, b)
		opposite, oppositeErr := states.CompareVersions(b, a)
		if got != -opposite || (err == nil) != (oppositeErr == nil) {
			t.Errorf("CompareVersions(%q, %q): got %d and %v, the other way round %d and %v", a, b, got, err, opposite, oppositeErr)
		}
		numberA, numberB := number(a), number(b)
		switch {
		case a != "" && numberA == nil || b != "" && numberB == nil:
			if got != 0 || !errors.Is(err, cache.ErrMalformed) {
				t.Errorf("CompareVersions(%q, %q): got %d and %v, want 0 and ErrMalformed", a, b, got, err)
			}
		case got != compare(numberA, numberB) || err != nil:
			t.Errorf("CompareVersions(%q, %q): got %d and %v, want %d", a, b, got, err, compare(numberA, numberB))
		}
	})
}

// compare orders versions; nil is the oldest.
func compare(a, b *big.Int) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return a.Cmp(b)
}

// orderModel is what an Order promises, in its simplest form.
type orderModel struct {
	highest   *big.Int // the highest version since the last epoch began; nil: none
	epoch     uint64   // of what is stored next
	state     secretState
	inherited bool
}

// refuses reports whether an object is not the one with the key.
func (m *orderModel) refuses(object any) bool {
	s, ok := object.(*corev1.Secret)
	return !ok || s == nil || s.Name != key.Name || s.Namespace != key.Namespace || number(s.ResourceVersion) == nil
}

func (m *orderModel) event(object any, exists bool) {
	if m.refuses(object) {
		return
	}
	s, state := object.(*corev1.Secret), secretState{Exists: exists, Synced: m.state.Synced}
	switch held := m.state.Object; {
	case compare(number(s.ResourceVersion), m.highest) > 0:
		m.highest = number(s.ResourceVersion)
	case !exists && m.state.Exists && held.ResourceVersion == s.ResourceVersion && held.UID == s.UID:
	default:
		return
	}
	if exists {
		state.Object = s
	}
	m.show(state)
}

func (m *orderModel) bookmark(version string) {
	if n := number(version); compare(n, m.highest) > 0 {
		m.highest = n
	}
}

func (m *orderModel) read(items []any, version string) {
	read := number(version)
	state := secretState{Synced: true, Exists: len(items) == 1}
	switch {
	case read == nil || len(items) > 1:
		return
	case state.Exists:
		if m.refuses(items[0]) {
			return
		}
		if state.Object = items[0].(*corev1.Secret); compare(number(state.Object.ResourceVersion), read) > 0 {
			return
		}
	}
	older := compare(read, m.highest) < 0
	if older && !m.inherited {
		return
	}
	same := state.Exists == m.state.Exists
	if same && state.Exists {
		same = state.Object.ResourceVersion == m.state.Object.ResourceVersion && state.Object.UID == m.state.Object.UID &&
			string(state.Object.Data["a"]) == string(m.state.Object.Data["a"])
	}
	// A later read cannot bring an older object, or another one at the same version.
	contradicts := m.state.Synced && state.Exists && !same && m.state.ResourceVersion != "" &&
		compare(number(state.Object.ResourceVersion), number(m.state.ResourceVersion)) <= 0
	if m.highest != nil && (older || contradicts) {
		m.epoch++
	}
	m.highest, m.inherited = read, false
	if !same || !m.state.Synced {
		m.show(state)
	}
}

// show makes a state the one held, unless readers see no difference.
func (m *orderModel) show(state secretState) {
	state.ResourceVersion = m.highest.String()
	if state.Exists {
		state.ResourceVersion = state.Object.ResourceVersion
	}
	state.Epoch = m.epoch
	if m.state.ResourceVersion == "" || !sameState(m.state, state) {
		m.state = state // an absence keeps the version that first showed it
	}
}

// orderScript reads the operations of FuzzOrder.
type orderScript []byte

func (s *orderScript) next() (b byte) {
	if len(*s) > 0 {
		b, *s = (*s)[0], (*s)[1:]
	}
	return b
}

// version returns a version: mostly one of a few numbers, that are close.
func (s *orderScript) version() string {
	b := s.next()
	odd := []string{"", "0", "x", "07", "-3", "18446744073709551616", "99999999999999999999999"}
	if int(b) >= 256-len(odd) {
		return odd[255-b]
	}
	return big.NewInt(int64(b % 24)).String()
}

// object returns an object, mostly the one with the key.
func (s *orderScript) object() any {
	b, version := s.next(), s.version()
	object := secret(version, types.UID("one"), "two")
	object.UID = types.UID([]string{"one", "two"}[b&1])
	object.Data = map[string][]byte{"a": {b >> 1 & 3}}
	switch b >> 4 {
	case 15:
		return (*corev1.Secret)(nil)
	case 14:
		return &corev1.ConfigMap{ObjectMeta: object.ObjectMeta}
	case 13:
		object.Name = "other"
	case 12:
		object.Namespace = "other"
	}
	return object
}

// held is an Order with the state that its holder has.
type held struct {
	order secretOrder
	state secretState
}

// hold makes a state the one that is held, if the verdict says so.
func (h *held) hold(state secretState, verdict states.Verdict) {
	if verdict == states.Newer {
		h.state = state
	}
}

func (h *held) event(item any, exists bool) {
	if object, err := states.CheckObject[*corev1.Secret](key, item); err == nil {
		h.hold(h.order.Event(h.state, object, exists))
	}
}

func (h *held) read(items []any, version string) {
	if read, err := states.CheckRead[*corev1.Secret](key, items, version); err == nil {
		h.hold(h.order.Read(h.state, read, version, h.state.SameContent(read)))
	}
}

// FuzzOrder compares what an Order decides with a model, after each of any events, bookmarks,
// reads, epochs and hand-overs to another writer.
func FuzzOrder(f *testing.F) {
	f.Add([]byte{4, 1, 0, 5, 7, 0, 0, 8, 1, 0, 9, 2, 0, 9, 4, 0, 12})
	f.Add([]byte{4, 1, 0, 5, 5, 5, 6, 4, 1, 1, 3, 3, 4, 1, 2, 3, 3})
	f.Add([]byte(strings.Repeat("\x00\x01\xff\x05\x04\x00\x07\x06\x03\x09", 8)))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, model, script := &held{}, &orderModel{}, orderScript(b)
		for len(script) > 0 {
			what := orderOps[script.next()%byte(len(orderOps))](&script, got, model)
			if want := model.state; !sameState(got.state, want) {
				t.Fatalf("%s: got %s, want %s", what, describe(got.state), describe(want))
			}
		}
	})
}

// orderOps are the operations of FuzzOrder. Each is done to the Order and to the model.
var orderOps = []func(*orderScript, *held, *orderModel) string{
	eventOp("add", true),
	eventOp("update", true),
	eventOp("delete", false),
	func(s *orderScript, h *held, m *orderModel) string {
		version := s.version()
		m.bookmark(version)
		h.order.Bookmark(version)
		return "bookmark"
	},
	func(s *orderScript, h *held, m *orderModel) string {
		var items []any
		for range s.next() % 3 {
			items = append(items, s.object())
		}
		version := s.version()
		m.read(items, version)
		h.read(items, version)
		return "read"
	},
	func(_ *orderScript, h *held, m *orderModel) string {
		m.highest, m.inherited = nil, false // the consistent read has come
		m.epoch++
		h.order.NewEpoch()
		return "epoch"
	},
	func(_ *orderScript, h *held, m *orderModel) string {
		m.inherited = true
		h.order.NewWriter()
		return "writer"
	},
}

func eventOp(what string, exists bool) func(*orderScript, *held, *orderModel) string {
	return func(s *orderScript, h *held, m *orderModel) string {
		object := s.object()
		m.event(object, exists)
		h.event(object, exists)
		return what
	}
}

// sameState reports whether two states are the same. The version of an absence may differ.
func sameState(a, b secretState) bool {
	if a.Exists != b.Exists || a.Synced != b.Synced || a.Epoch != b.Epoch {
		return false
	}
	return !a.Exists || a.ResourceVersion == b.ResourceVersion && a.Object.UID == b.Object.UID &&
		string(a.Object.Data["a"]) == string(b.Object.Data["a"])
}

func describe(s secretState) string {
	text := "epoch " + big.NewInt(int64(s.Epoch)).String() + " version " + s.ResourceVersion
	if s.Exists {
		text += " uid " + string(s.Object.UID) + " data " + string('0'+s.Object.Data["a"][0])
	}
	if s.Synced {
		text += " synced"
	}
	return text
}
