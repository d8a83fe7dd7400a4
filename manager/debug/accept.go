// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// qualities returns what an Accept or Accept-Encoding header names, with the quality of each: 1, or what ";q=" says.
func qualities(header http.Header, field string) map[string]float64 {
	all := map[string]float64{}
	for part := range strings.SplitSeq(strings.Join(header.Values(field), ","), ",") {
		name, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		q := 1.0
		if text, ok := parameters["q"]; ok {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		all[name] = max(q, all[name])
	}
	return all
}

// prefersJSON reports whether the Accept header of a request prefers JSON to HTML.
func prefersJSON(header http.Header) bool {
	quality := qualities(header, "Accept")
	return quality["application/json"] > max(quality["text/html"], quality["application/xhtml+xml"])
}

// acceptsGzip reports whether a client decompresses gzip. One without an Accept-Encoding header may not.
func acceptsGzip(header http.Header) bool {
	quality := qualities(header, "Accept-Encoding")
	for _, name := range []string{"gzip", "x-gzip", "*"} {
		if q, ok := quality[name]; ok {
			return q > 0
		}
	}
	return false
}
