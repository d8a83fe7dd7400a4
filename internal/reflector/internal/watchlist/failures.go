// SPDX-License-Identifier: Apache-2.0

package watchlist

import (
	"errors"
	"net"
	"net/http"

	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

// What a failure says about WatchLists.

// isBroken reports whether a stream ended because of its content, or at a moment
// when it should not. An error that the server sent is no such end.
func isBroken(err error) bool {
	switch failure.Of(err) {
	case failure.Malformed:
		return true
	case failure.Unreachable, failure.Failed:
		return failure.StatusCode(err) == 0 || redact.IsDecoding(err)
	}
	return false
}

// refusesRequest reports whether the server does not know a WatchList. With its
// feature gate off the request is invalid (422). So it is for servers before 1.27,
// which do not know its resourceVersionMatch. Other servers, and proxies, answer
// with other codes.
func refusesRequest(err error) bool {
	switch failure.StatusCode(err) {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusUnsupportedMediaType, http.StatusNotImplemented:
		return true
	}
	return false
}

// refusesCaller reports whether the server refuses a watch to this caller, or of
// this object, while it may answer a list: rights are given by verb, and a proxy may
// know some paths only.
func refusesCaller(err error) bool {
	class := failure.Of(err)
	return class.IsRefusal() && class != failure.Unauthorized && !refusesRequest(err)
}

// mayListInstead reports whether a watch failed although a list may work: the server has
// answered with 5xx or 429, or the connection was lost. Without a connection no request
// works.
func mayListInstead(err error) bool {
	var noConnection *net.OpError
	switch failure.Of(err) {
	case failure.Failed, failure.Throttled:
		return true
	case failure.Unreachable:
		return !errors.Is(err, failure.ErrNoAnswer) && (!errors.As(err, &noConnection) || noConnection.Op != "dial")
	}
	return false
}
