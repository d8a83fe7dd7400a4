// SPDX-License-Identifier: Apache-2.0

package redact_test

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/internal/redact"
)

// A NotFound is a normal answer, and a program without rights gets many refusals: each passes Error once.
func BenchmarkError(b *testing.B) {
	for name, err := range map[string]error{
		"NotFound":  apierrors.NewNotFound(resource, "tls"),
		"Forbidden": apierrors.NewForbidden(resource, "tls", errors.New(`User "system:serviceaccount:shop:gateway" cannot watch resource "secrets" in API group "" in the namespace "shop"`)),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_ = redact.Error(err)
			}
		})
	}
}
