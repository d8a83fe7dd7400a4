// SPDX-License-Identifier: Apache-2.0

package course

import (
	"errors"
	"net"
	"net/http"

	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

// Fault is what the failure of a request says about its verb.
type Fault uint8

const (
	// NoFault says nothing: the request has not reached the server, or no other one would be
	// answered.
	NoFault Fault = iota
	// Unknown: the server does not know the request. With the feature gate of WatchList off it is
	// invalid (422). So it is for servers before 1.27, which do not know its resourceVersionMatch.
	// Other servers, and proxies, answer with other codes.
	Unknown
	// Refused: the server refuses the verb to this caller, or of this object. Rights are given by
	// verb, and a proxy may know some paths only.
	Refused
	// Failing: the server has answered with 5xx, or the connection was lost.
	Failing
	// Throttled: the server has answered with 429.
	Throttled
	// Broken: the answer ended before the state was complete, or cannot be decoded.
	Broken
	// Hung: no answer came in time.
	Hung
)

// FaultOf returns what a failure says about its verb. answered is set if a stream was open.
func FaultOf(f failure.Failure, answered bool) Fault {
	if errors.Is(f.Err, failure.ErrNoAnswer) {
		return Hung
	}
	var noConnection *net.OpError
	code := failure.StatusCode(f.Err)
	switch f.Class {
	case failure.Malformed:
		return Broken
	case failure.Throttled:
		return Throttled
	case failure.TooLarge, failure.Expired:
		return Failing
	case failure.Failed:
		if answered && (code == 0 || redact.IsDecoding(f.Err)) {
			return Broken
		}
		if code == http.StatusNotImplemented {
			return Unknown
		}
		return Failing
	case failure.Unreachable:
		switch {
		case answered:
			return Broken
		case errors.As(f.Err, &noConnection) && noConnection.Op == "dial":
			return NoFault
		}
		return Failing
	case failure.Forbidden, failure.Refused, failure.Unauthorized:
		if isUnknown(code) {
			return Unknown
		}
		return Refused
	}
	return NoFault
}

func isUnknown(code int32) bool {
	switch code {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusUnsupportedMediaType:
		return true
	}
	return false
}
