// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/states"
)

// bookmarks recognizes bookmarks without decoding them. A server sends one about once a minute
// on each stream, and most streams get nothing else for hours. All bookmarks of a resource are
// the same but for their version. So a frame that differs from that of a decoded bookmark in the
// digits of the version alone is a bookmark of the other version.
type bookmarks struct {
	known atomic.Pointer[[]bookmark] // the newest first
}

// bookmark is the form of the frames of bookmarks. It holds no byte of them.
type bookmark struct {
	length     int // of the frame
	start, end int // of the version in it
	rest       uint64
}

const (
	// largestBookmark is the size above which the form of a bookmark is not remembered. One of
	// kube-apiserver has 60 to 400 bytes.
	largestBookmark = 1 << 10
	// knownBookmarks is how many forms are remembered for a resource. API servers of two releases
	// may send two, and a version gets longer with time.
	knownBookmarks = 4
)

// version returns the version of the bookmark in a frame. ok is false if the frame is not known
// to be a bookmark.
func (b *bookmarks) version(frame []byte) (version string, ok bool) {
	known := b.known.Load()
	if known == nil {
		return "", false
	}
	for _, k := range *known {
		if len(frame) == k.length && restOf(frame, k.start, k.end) == k.rest {
			version = string(frame[k.start:k.end])
			return version, states.CheckVersion(version) == nil
		}
	}
	return "", false
}

// restOf returns a hash of a frame without its version.
func restOf(frame []byte, start, end int) uint64 {
	var rest maphash.Hash
	rest.SetSeed(markSeed)
	_, _ = rest.Write(frame[:start])
	_, _ = rest.Write(frame[end:])
	return rest.Sum64()
}

// add remembers the form of a frame.
func (b *bookmarks) add(frame []byte, start, end int) {
	known := b.known.Load()
	next := []bookmark{{len(frame), start, end, restOf(frame, start, end)}}
	if known != nil {
		next = append(next, (*known)[:min(len(*known), knownBookmarks-1)]...)
	}
	b.known.CompareAndSwap(known, &next) // else another stream has added one
}

// learnBookmark remembers the form of a frame that was decoded, if it is a bookmark whose version
// stands at one place: with other digits there it is a bookmark of that version.
func (s *restStream) learnBookmark(frame []byte, event watch.Event) {
	version, ok := bookmarkVersion(event)
	if !ok || len(frame) > largestBookmark {
		return
	}
	whole := frame
	if s.format == formatProtobuf {
		whole = append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
	}
	if _, ok := s.source.resource.bookmarks.version(whole); ok {
		return // the waker does not take bookmarks, or not this one
	}
	before, after, _ := bytes.Cut(frame, []byte(version))
	other := otherDigits(version)
	probe, err := s.decodeFrame(slices.Concat(before, other, after))
	if got, _ := bookmarkVersion(probe); err != nil || got != string(other) {
		return
	}
	end := len(whole) - len(after)
	s.source.resource.bookmarks.add(whole, end-len(version), end)
}

// bookmarkVersion returns the version of a bookmark. ok is false for another event, and without
// a valid version.
func bookmarkVersion(event watch.Event) (version string, ok bool) {
	header, err := meta.Accessor(event.Object)
	if err != nil || event.Type != watch.Bookmark {
		return "", false
	}
	version = header.GetResourceVersion()
	return version, states.CheckVersion(version) == nil
}

// otherDigits returns a version of the same length that differs in every digit.
func otherDigits(version string) []byte {
	other := bytes.Repeat([]byte("9"), len(version))
	for i := range other {
		if version[i] == '9' {
			other[i] = '8'
		}
	}
	return other
}

// takeBookmark passes p to the waker, if it is a known bookmark and nothing that came before it
// waits for TryNext, or is being worked off.
func (s *restStream) takeBookmark(p []byte) (taken bool) {
	s.mu.Lock()
	next, format := s.waiting && s.frames == nil && !s.closed, s.format
	s.mu.Unlock()
	if !next {
		return false
	}
	if format == formatJSON {
		p = bytes.TrimRight(p, blanks)
	}
	version, ok := s.source.resource.bookmarks.version(p)
	return ok && s.wake.TakeBookmark(version)
}
