// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// Each code block is checked by its language. A language that is not in the table is an
// error: add it with a check, or write "text" for what no program reads.
func TestBlocks(t *testing.T) {
	sources := sources(t)
	checks := map[string]func(block) []string{
		"go":      func(b block) []string { return checkGo(b, sources) },
		"console": func(b block) []string { return checkConsole(b, "") },
		"yaml":    func(b block) []string { return checkYAML(b, sources) },
		"text":    func(block) []string { return nil },
		"":        checkDrawing,
	}
	count := map[string]int{}
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			check, ok := checks[b.language]
			if !ok {
				t.Errorf("%s:%d: a block of language %q, which has no check", p.path, b.at.number, b.language)
				continue
			}
			count[b.language]++
			problems := check(b)
			if b.language == "console" && len(problems) > 0 && len(checkConsole(b, path.Dir(p.path))) == 0 {
				problems = nil // the commands run in the folder of the page
			}
			for _, problem := range problems {
				t.Errorf("%s:%d: %s", p.path, b.at.number, problem)
			}
		}
	}
	for _, language := range []string{"go", "console", "yaml"} {
		if count[language] < 5 {
			t.Errorf("blocks of %s: got %d, want 5 or more", language, count[language])
		}
	}
}

// A page indents no commands and no code: an indented block has no language, and no check.
func TestNoIndentedBlocks(t *testing.T) {
	code := regexp.MustCompile(`^ {4,}(\$ |\./|(go|make|kubectl|curl|git|cd) |apiVersion:|func |package |import )`)
	for _, p := range pages(t) {
		before := "" // the last line that is not empty
		empty := true
		for _, l := range p.prose {
			if empty && code.MatchString(l.text) && !strings.HasPrefix(strings.TrimLeft(before, " "), "- ") {
				t.Errorf("%s:%d: indented code: put it between fences, with a language", p.path, l.number)
			}
			if empty = strings.TrimSpace(l.text) == ""; !empty && !strings.HasPrefix(l.text, " ") {
				before = l.text
			}
		}
	}
}

// Commands in the prose name make targets that exist.
func TestProseNamesTargets(t *testing.T) {
	command := regexp.MustCompile("`make ([^`]+)`")
	for _, p := range pages(t) {
		for _, l := range p.prose {
			for _, match := range command.FindAllStringSubmatch(l.text, -1) {
				if problem := checkMake(strings.Fields(match[1])); problem != "" {
					t.Errorf("%s:%d: %s", p.path, l.number, problem)
				}
			}
		}
	}
}

// sources returns the lines of all Go files, without indentation.
func sources(t *testing.T) map[string]string {
	t.Helper()
	sources := map[string]string{}
	for _, file := range files(t, ".go") {
		sources[file] = unindented(strings.Split(read(t, file), "\n"))
	}
	return sources
}

func unindented(lines []string) string {
	var text strings.Builder
	for _, line := range lines {
		text.WriteString("\n" + strings.TrimSpace(line))
	}
	return text.String() + "\n"
}

// checkGo finds the block in a Go file. The lines "// ..." separate parts that stand
// there in this order.
func checkGo(b block, sources map[string]string) []string {
	var parts [][]string
	part := []string{}
	for _, line := range b.lines {
		if strings.TrimSpace(line) == "// ..." {
			parts, part = append(parts, part), nil
			continue
		}
		part = append(part, line)
	}
	parts = append(parts, part)
	for _, source := range sources {
		if contains(source, parts) {
			return nil
		}
	}
	return []string{"this code is in no Go file, so nothing compiles it:\n" + strings.Join(b.lines, "\n")}
}

func contains(source string, parts [][]string) bool {
	for _, part := range parts {
		text := unindented(part)
		at := strings.Index(source, text)
		if at < 0 {
			return false
		}
		source = source[at+len(text)-1:]
	}
	return true
}

// checkYAML parses the documents of a block. One with an apiVersion must be a Kubernetes
// object without unknown fields, or one of a type of this repository.
func checkYAML(b block, sources map[string]string) (problems []string) {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for document := range strings.SplitSeq(strings.Join(b.lines, "\n")+"\n", "\n---\n") {
		var parsed map[string]any
		err := yaml.UnmarshalStrict([]byte(document), &parsed)
		if err == nil && parsed["apiVersion"] != nil {
			_, _, err = decoder.Decode([]byte(document), nil, nil)
			if runtime.IsNotRegisteredError(err) && checkOwnKind(parsed, sources) {
				err = nil
			}
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("%v in this YAML:\n%s", err, document))
		}
	}
	return problems
}

// checkOwnKind reports whether a Go file declares the type of an object, and all its
// fields but those of nested objects.
func checkOwnKind(object map[string]any, sources map[string]string) bool {
	for _, source := range sources {
		if !strings.Contains(source, fmt.Sprintf("\ntype %s struct {\n", object["kind"])) {
			continue
		}
		complete := true
		for field := range object {
			inline := field == "apiVersion" || field == "kind"
			complete = complete && (inline || regexp.MustCompile(`json:"`+regexp.QuoteMeta(field)+`[,"]`).MatchString(source))
		}
		if complete {
			return true
		}
	}
	return false
}

// checkDrawing refuses code in a block without a language.
func checkDrawing(b block) (problems []string) {
	for _, line := range b.lines {
		if strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "apiVersion:") || strings.HasPrefix(line, "func ") {
			problems = append(problems, "code in a block without a language: "+line)
		}
	}
	return problems
}
