// SPDX-License-Identifier: Apache-2.0

package states

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/refwatch/refwatch/cache"
)

// CheckVersion returns nil if version is a resource version: a decimal number
// above 0, without leading zeros. Otherwise the error wraps [cache.ErrMalformed].
func CheckVersion(version string) error {
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return fmt.Errorf("%w: resource version %q", cache.ErrMalformed, version)
	}
	return nil
}

// CompareVersions returns -1 if resource version a is older than b, 0 if both are
// equal and 1 if a is newer. An empty version is older than every other. If one of
// them is malformed, CompareVersions returns 0 and an error that wraps
// [cache.ErrMalformed].
//
// The order is that of [resourceversion.CompareResourceVersion]. It means
// something for versions of one resource and one epoch only.
func CompareVersions(a, b string) (int, error) {
	if a == "" || b == "" {
		if a == b {
			return 0, nil
		}
		if err := CheckVersion(cmp.Or(a, b)); err != nil {
			return 0, err
		}
		return cmp.Compare(a, b), nil
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		return 0, fmt.Errorf("%w: resource version %q or %q", cache.ErrMalformed, a, b)
	}
	return order, nil
}
