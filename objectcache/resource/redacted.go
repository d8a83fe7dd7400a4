// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// Loggable marks an error of a [Source]: its text holds no object data and is not hidden.
func Loggable(err error) error { return redact.Loggable(err) }

// Redacted calls get, which reads an object with any client, for a program that reads objects beside its stores. It
// hides the text of an error that may quote an object, as a store does, and client-go's log lines that hold a body. A
// panic becomes an error.
func Redacted[T runtime.Object](ctx context.Context, get func(context.Context) (T, error)) (T, error) {
	return listwatch.Redacted(ctx, get)
}
