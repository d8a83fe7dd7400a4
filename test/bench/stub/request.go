// SPDX-License-Identifier: Apache-2.0

package stub

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
)

// request is a list or a watch of one Secret.
type request struct {
	name          string
	watch         bool
	initialEvents bool   // the watch begins with the state
	version       uint64 // that a watch resumes after
}

// parse returns the request of a header, or an error if the server does not answer it.
func parse(header *http2.MetaHeadersFrame) (r request, err error) {
	target, err := url.ParseRequestURI(header.PseudoValue("path"))
	if err != nil {
		return r, err
	}
	method, query := header.PseudoValue("method"), target.Query()
	name, byName := strings.CutPrefix(query.Get("fieldSelector"), "metadata.name=")
	if method != http.MethodGet || !strings.HasSuffix(target.Path, "/secrets") || !byName || !header.StreamEnded() {
		return r, fmt.Errorf("%s %s is neither a list nor a watch of one Secret", method, target.Path)
	}
	r = request{name: name, watch: isTrue(query, "watch"), initialEvents: isTrue(query, "sendInitialEvents")}
	if text := query.Get("resourceVersion"); text != "" && !r.initialEvents {
		r.version, err = strconv.ParseUint(text, 10, 64)
	}
	return r, err
}

func isTrue(query url.Values, name string) bool {
	value, err := strconv.ParseBool(query.Get(name))
	return err == nil && value
}
