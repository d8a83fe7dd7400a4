// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// library are the folders whose messages docs/troubleshooting.md explains.
var library = []string{"cache/", "internal/", "reflector/", "objectcache/", "manager/", "featuregates/"}

// internal are texts that no user reads as a message, and why.
var internal = map[string]string{
	"the member has left":              "ends the wait of a reflector that was stopped",
	"the session was ended":            "replaced by the cause",
	"waiting":                          "begins other messages",
	"panic":                            "begins another message",
	"malformed":                        "begins other messages",
	"the server did not answer a PING": "begins another message",
	"and … more":                       "ends another message",
	"the server is used through the base transport":      "sends a watch through the base transport",
	"the connection was taken":                           "ends the request that makes a connection",
	"the context is not from WithParking":                "for callers of h2.WhyNoBody, and the library does not ask without it",
	"read of a body whose data a Receiver takes":         "for callers of h2.Body, and the library does not make this error",
	"only GET requests without a body are possible here": "Transport sends all other requests through the base transport",
	"the request has no URL":                             "as above",
	"the request's URL has no path":                      "client-go's requests have one",
}

// instruction is in a message that says what to do. It needs no row.
var instruction = regexp.MustCompile(
	`(: |; |, or |\bThen |^)(add|bind|call|check|Get each|give|look for|make|name|omit|pass|remove|set|they must|use|0 means) `)

// docs/troubleshooting.md has a row for each message that the library can produce, and that does not say what to do:
// the text of an error, or of a log line that is not for debugging. It has rows for no others. A row that ends with an
// ellipsis is for all messages that begin so.
func TestMessagesAreExplained(t *testing.T) {
	explained := explainedMessages(t)
	produced := producedMessages(t)
	if len(produced) < 100 {
		t.Errorf("messages in the code: got %d, want 100 or more", len(produced))
	}
	used := map[string]bool{}
	for message, where := range produced {
		found := internal[message] != "" || instruction.MatchString(message)
		for row := range explained {
			start, family := strings.CutSuffix(row, " …")
			if row == message || family && strings.HasPrefix(message, start+" ") {
				found, used[row] = true, true
			}
		}
		if !found {
			t.Errorf("docs/troubleshooting.md has no row for the message of %s:\n`%s`", where, message)
		}
	}
	for message := range explained {
		if !used[message] {
			t.Errorf("docs/troubleshooting.md explains a message that the library does not produce:\n`%s`", message)
		}
	}
	for message := range internal {
		if produced[message] == "" {
			t.Errorf("the library does not have the internal message %q", message)
		}
	}
}

// row is a row whose first column has messages, separated by commas.
var row = regexp.MustCompile("^\\| ((?:`[^`]+`(?:, )?)+) \\|")

// explainedMessages returns the code in the first column of the tables.
func explainedMessages(t *testing.T) map[string]bool {
	t.Helper()
	messages := map[string]bool{}
	const path = "docs/troubleshooting.md"
	for _, l := range parse(path, read(t, path)).prose {
		match := row.FindStringSubmatch(l.text)
		if match == nil {
			continue
		}
		for message := range strings.SplitSeq(strings.Trim(match[1], "`"), "`, `") {
			if messages[message] {
				t.Errorf("%s:%d: another row for `%s`", path, l.number, message)
			}
			messages[message] = true
		}
	}
	return messages
}

// producedMessages returns the messages in the code, each with its place.
func producedMessages(t *testing.T) map[string]string {
	t.Helper()
	m := &messages{found: map[string]string{}, sentinels: map[string]string{}, files: token.NewFileSet()}
	var parsed []*ast.File
	for _, file := range files(t, ".go") {
		if strings.HasSuffix(file, "_test.go") || !inLibrary(file) {
			continue
		}
		syntax, err := parser.ParseFile(m.files, filepath.Join(root, file), nil, parser.SkipObjectResolution)
		check(t, err)
		parsed = append(parsed, syntax)
	}
	for range 2 { // the second time with the texts of all sentinels
		clear(m.found)
		for _, file := range parsed {
			ast.Inspect(file, m.visit)
		}
	}
	for message := range m.found { // a message that only adds a cause to another needs no row
		if short, ok := strings.CutSuffix(message, ": …"); ok && m.found[short] != "" {
			delete(m.found, message)
		}
	}
	return m.found
}

func inLibrary(file string) bool {
	for _, folder := range library {
		if strings.HasPrefix(file, folder) {
			return true
		}
	}
	return false
}

// messages collects the messages of Go files.
type messages struct {
	files     *token.FileSet
	found     map[string]string // message to place
	sentinels map[string]string // name of a variable to the text of its error
}

func (m *messages) visit(node ast.Node) bool {
	switch node := node.(type) {
	case *ast.ValueSpec:
		for i, value := range node.Values {
			if call, ok := value.(*ast.CallExpr); ok {
				if text := m.textOf(call); text != "" {
					m.sentinels[node.Names[i].Name] = text
				}
			}
			if strings.HasSuffix(node.Names[i].Name, "Note") { // a constant, which the debug page shows as well
				m.add(value, normal(literal(value)))
			}
		}
	case *ast.CallExpr:
		m.add(node, m.textOf(node))
	case *ast.KeyValueExpr: // of a metav1.Status
		if key, ok := node.Key.(*ast.Ident); ok && key.Name == "Message" {
			if call, ok := node.Value.(*ast.CallExpr); ok {
				m.add(node, normal(literal(call.Args[0])))
			}
		}
	case *ast.FuncDecl:
		if node.Recv != nil && node.Name.Name == "Error" && len(node.Type.Params.List) == 0 && node.Body != nil {
			ast.Inspect(node.Body, func(inner ast.Node) bool {
				if text, ok := inner.(ast.Expr); ok {
					if text := literal(text); strings.Contains(text, " ") {
						m.add(inner, normal(text))
						return false
					}
				}
				return true
			})
		}
	}
	return true
}

func (m *messages) add(node ast.Node, message string) {
	if !regexp.MustCompile(`[a-z]`).MatchString(message) {
		return
	}
	position := m.files.Position(node.Pos())
	m.found[message] = path.Base(filepath.ToSlash(position.Filename)) + ":" + strconv.Itoa(position.Line)
}

// textOf returns the message that a call makes or logs, or else "".
func (m *messages) textOf(call *ast.CallExpr) string {
	function, receiver := nameOf(call.Fun)
	switch {
	case (receiver == "errors" || receiver == "redact") && function == "New", function == "transformFailed":
		return normal(literal(call.Args[0]))
	case (receiver == "fmt" || receiver == "redact") && function == "Errorf":
		return m.formatted(literal(call.Args[0]), call.Args[1:])
	case function == "Info" && len(call.Args) > 0 && !isDebug(call.Fun):
		message := call.Args[0]
		if format, ok := message.(*ast.CallExpr); ok { // fmt.Sprintf
			message = format.Args[0]
		}
		return normal(literal(message))
	case function == "Error" && len(call.Args) > 1:
		return normal(literal(call.Args[1]))
	}
	return ""
}

// nameOf returns the names of a function and of its package or receiver.
func nameOf(function ast.Expr) (name, receiver string) {
	switch function := function.(type) {
	case *ast.Ident:
		return function.Name, ""
	case *ast.SelectorExpr:
		if x, ok := function.X.(*ast.Ident); ok {
			receiver = x.Name
		}
		return function.Sel.Name, receiver
	}
	return "", ""
}

// isDebug reports whether a function is a method of a logger's V(1) or above.
func isDebug(function ast.Expr) bool {
	selector, ok := function.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	call, ok := selector.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	name, _ := nameOf(call.Fun)
	if name != "V" || len(call.Args) != 1 {
		return false
	}
	level, ok := call.Args[0].(*ast.BasicLit)
	return ok && level.Value != "0"
}

// literal returns the value of a string constant, or else "".
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			if text, err := strconv.Unquote(e.Value); err == nil {
				return text
			}
		}
	case *ast.BinaryExpr:
		if left, right := literal(e.X), literal(e.Y); left != "" && right != "" {
			return left + right
		}
	}
	return ""
}

var verb = regexp.MustCompile(`"?%[+#]*[a-zA-Z]"?`)

// formatted returns a format as a message. Sentinel errors that it wraps are replaced by
// their texts, other arguments by an ellipsis.
func (m *messages) formatted(format string, args []ast.Expr) string {
	i := -1
	return normal(verb.ReplaceAllStringFunc(format, func(verb string) string {
		i++
		if i < len(args) && verb == "%w" {
			name, _ := nameOf(args[i])
			if text := m.sentinels[name]; text != "" {
				return text
			}
		}
		return verb
	}))
}

// normal replaces the arguments of a format by ellipses, and drops one at the beginning.
func normal(format string) string {
	return strings.TrimPrefix(verb.ReplaceAllString(format, "…"), "…: ")
}
