// SPDX-License-Identifier: Apache-2.0

package secrecy_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
)

// faults answer every request with something that holds the value v of a Secret, which
// client-go and net/http may quote. The values of header fields do not: they are shown.
var faults = map[string]func(v string) http.HandlerFunc{
	"no fault":               func(string) http.HandlerFunc { return nil },
	"an HTML page as a 502":  func(v string) http.HandlerFunc { return answer(502, "text/html", page(v)) },
	"an HTML page as a 200":  func(v string) http.HandlerFunc { return answer(200, "text/html", page(v)) },
	"plain text":             func(v string) http.HandlerFunc { return answer(200, "text/plain", object(v)) },
	"the object as a 500":    func(v string) http.HandlerFunc { return answer(500, "application/json", object(v)) },
	"the object as a 403":    func(v string) http.HandlerFunc { return answer(403, "application/json", object(v)) },
	"the object as a 404":    func(v string) http.HandlerFunc { return answer(404, "application/json", object(v)) },
	"the object as a 429":    func(v string) http.HandlerFunc { return answer(429, "application/json", object(v)) },
	"the object in a status": func(v string) http.HandlerFunc { return answer(200, "application/json", wrongStatus(v)) },
	"no kind": func(v string) http.HandlerFunc {
		return delivers(strings.Replace(object(v), `"kind":"Secret",`, "", 1))
	},
	"another kind":            func(v string) http.HandlerFunc { return delivers(strings.Replace(object(v), "Secret", "ConfigMap", 1)) },
	"an unknown kind":         func(v string) http.HandlerFunc { return delivers(strings.Replace(object(v), "Secret", v, 1)) },
	"another name":            func(v string) http.HandlerFunc { return delivers(strings.Replace(object(v), "tls", "other", 1)) },
	"data that is not base64": func(v string) http.HandlerFunc { return delivers(strings.Replace(object(v), encode(v), v, 1)) },
	"data of a wrong type":    func(v string) http.HandlerFunc { return delivers(object(v), `{"password":"`+encode(v)+`"}`, `"`+v+`"`) },
	"annotations of a wrong type": func(v string) http.HandlerFunc {
		return delivers(object(v), `{"last":"`+v+`"}`, `["`+v+`"]`)
	},
	"a number for a string": func(v string) http.HandlerFunc { return delivers(object(v), `"tls"`, "7"+v) },
	"a version that is a text": func(v string) http.HandlerFunc {
		return delivers(object(v), `"resourceVersion":"5"`, `"resourceVersion":[{"x":"`+v+`"}]`)
	},
	"an ERROR event with the object": func(v string) http.HandlerFunc {
		return answer(200, "application/json", `{"type":"ERROR","object":`+object(v)+"}\n")
	},
	"an event of an unknown type": func(v string) http.HandlerFunc {
		return answer(200, "application/json", `{"type":"`+v+`","object":`+object(v)+"}\n")
	},
	"an event in an event": func(v string) http.HandlerFunc {
		return answer(200, "application/json", `{"type":"ADDED","object":{"type":"ADDED","object":`+object(v)+"}}\n")
	},
	"half an event, and the end": func(v string) http.HandlerFunc {
		return answer(200, "application/json", `{"type":"ADDED","object":`+object(v)[:len(object(v))-20])
	},
	"half an event, and an abort": func(v string) http.HandlerFunc {
		return aborts(200, "application/json", `{"type":"ADDED","object":`+object(v)[:len(object(v))-20])
	},
	"an answer that is no HTTP":   func(v string) http.HandlerFunc { return raw(object(v) + "\r\n\r\n") },
	"a header that is none":       func(v string) http.HandlerFunc { return raw("HTTP/1.1 200 OK\r\n" + v + "\r\n\r\n") },
	"a trailer that is no header": func(v string) http.HandlerFunc { return chunked("0\r\n" + object(v) + "\r\n\r\n") },
	"a trailer after half an event": func(v string) http.HandlerFunc {
		return chunked("8\r\n{\"type\":\r\n0\r\n" + object(v) + "\r\n\r\n")
	},
	"a trailer after an error": func(v string) http.HandlerFunc {
		return raw("HTTP/1.1 500 Internal Server Error\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + object(v) + "\r\n\r\n")
	},
	"a chunk length that is none":      func(v string) http.HandlerFunc { return chunked(object(v) + "\r\n") },
	"a Content-Length that is none":    func(v string) http.HandlerFunc { return header("Content-Length", "x", object(v)) },
	"a Transfer-Encoding that is none": func(v string) http.HandlerFunc { return header("Transfer-Encoding", "x", object(v)) },
	"a Content-Type that is none":      func(v string) http.HandlerFunc { return header("Content-Type", "x; x; x", object(v)) },
	"a status that is none":            func(v string) http.HandlerFunc { return raw("HTTP/1.1 " + v + "\r\n\r\n") },
	"a Location that is none":          func(v string) http.HandlerFunc { return redirect("http://[" + v) },
	"a wrong Content-Encoding": func(v string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			answer(200, "application/json", object(v))(w, r)
		}
	},
	"protobuf without a prefix":   func(v string) http.HandlerFunc { return protobuf(v+v, len(v+v)) },
	"protobuf that is cut":        func(v string) http.HandlerFunc { return protobuf("k8s\x00"+v, 10*len(v)) },
	"protobuf that is too long":   func(v string) http.HandlerFunc { return protobuf("k8s\x00"+v, 0x7fffffff) },
	"protobuf with a wrong field": func(v string) http.HandlerFunc { return protobuf("k8s\x00\x0a\x7f"+v, 6+len(v)) },
	"protobuf of an unknown kind": func(v string) http.HandlerFunc {
		return protobuf("k8s\x00"+field(1, field(1, "v1")+field(2, v))+field(2, v), 4+4+4+2+len(v)+2+len(v))
	},
	"protobuf with a text as the object": func(v string) http.HandlerFunc {
		frame := "k8s\x00" + field(1, field(1, "v1")+field(2, "Secret")) + field(2, v)
		return protobuf(frame, len(frame))
	},
	"protobuf event with a text as the object": func(v string) http.HandlerFunc {
		event := "k8s\x00" + field(1, field(1, "v1")+field(2, "WatchEvent")) +
			field(2, field(1, "ADDED")+field(2, field(1, "k8s\x00"+field(1, field(1, "v1")+field(2, "Secret"))+field(2, v))))
		return protobuf(event, len(event))
	},
}

func encode(v string) string { return base64.StdEncoding.EncodeToString([]byte(v)) }

// object is the Secret in JSON.
func object(v string) string {
	return fmt.Sprintf(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"tls","namespace":"default","uid":"u",`+
		`"resourceVersion":"5","annotations":{"last":%q}},"data":{"password":%q}}`, v, encode(v))
}

func page(v string) string {
	return "<html><body>Bad gateway: " + v + " " + object(v) + "</body></html>"
}

// wrongStatus is the Secret, with the kind of a Status.
func wrongStatus(v string) string { return strings.Replace(object(v), "Secret", "Status", 1) }

// answer answers every request alike.
func answer(code int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

// raw answers with these bytes over HTTP/1.1, and over HTTP/2 with them as the body.
func raw(bytes string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			answer(200, "application/json", bytes)(w, r)
			return
		}
		_, _ = conn.Write([]byte(bytes))
		// Without TLS' close_notify: net/http holds a lock while it sends its own, and in a
		// bubble neither side would ever read that of the other.
		_ = conn.(*tls.Conn).NetConn().Close()
	}
}

// chunked is raw with a header in front that announces chunks.
func chunked(bytes string) http.HandlerFunc { return header("Transfer-Encoding", "chunked", bytes) }

// header is raw with a header in front, with a field.
func header(name, value string, body ...string) http.HandlerFunc {
	return raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + name + ": " + value + "\r\n\r\n" + strings.Join(body, ""))
}

// redirect redirects every request.
func redirect(location string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
}

// aborts is answer, and then the stream or the connection is reset.
func aborts(code int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer(code, contentType, body)(w, r)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// delivers answers with the object, as an event, in a list or by itself. Pairs of texts
// replace one another in it.
func delivers(object string, replace ...string) http.HandlerFunc {
	object = strings.NewReplacer(replace...).Replace(object)
	return func(w http.ResponseWriter, r *http.Request) {
		body := object
		switch {
		case r.URL.Query().Has("watch"):
			body = `{"type":"ADDED","object":` + object + "}\n"
		case strings.HasSuffix(r.URL.Path, "/secrets"):
			body = `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[` + object + `]}`
		}
		answer(200, "application/json", body)(w, r)
	}
}

// protobuf answers a watch with a frame of that length, and others with its content.
func protobuf(frame string, length int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			header := string(binary.BigEndian.AppendUint32(nil, uint32(length)))
			answer(200, "application/vnd.kubernetes.protobuf;stream=watch", header+frame)(w, r)
			return
		}
		answer(200, "application/vnd.kubernetes.protobuf", frame)(w, r)
	}
}

// field is a field of a protobuf message.
func field(number int, text string) string {
	return string(binary.AppendUvarint(nil, uint64(number<<3|2))) + string(binary.AppendUvarint(nil, uint64(len(text)))) + text
}
