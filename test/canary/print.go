// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2/textlogger"
)

// Print returns a value in all ways in which a program may print it: with the verbs of
// fmt, as JSON, and as a value in the log lines of klog, log/slog and funcr. Of an error
// it prints everything that it wraps, too.
func Print(value any) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%v\n%+v\n%#v\n%s\n%q\n%x\n%d\n", value, value, value, value, value, value, value)
	text, err := json.Marshal(value)
	fmt.Fprintf(&out, "%s %v\n", text, err)
	out.WriteString(logged(value))
	err, _ = value.(error)
	switch wraps := err.(type) { //nolint:errorlint // this unwraps
	case interface{ Unwrap() error }:
		if inner := wraps.Unwrap(); inner != nil {
			out.WriteString(Print(inner))
		}
	case interface{ Unwrap() []error }:
		for _, inner := range wraps.Unwrap() {
			out.WriteString(Print(inner))
		}
	}
	return out.String()
}

// logged returns the value in log lines.
func logged(value any) string {
	var out bytes.Buffer
	textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out))).Info("klog", "value", value)
	slog.New(slog.NewTextHandler(&out, nil)).Info("slog", "value", value)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("slog", "value", value)
	funcr.New(func(_, args string) { out.WriteString(args + "\n") }, funcr.Options{}).Info("funcr", "value", value)
	return out.String()
}
