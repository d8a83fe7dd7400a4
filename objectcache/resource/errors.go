// SPDX-License-Identifier: Apache-2.0

package resource

import "github.com/refwatch/refwatch/objectcache/internal/names"

// ErrInvalidName is returned for a namespace or name that no object can have. No request is
// ever sent for it, and apierrors.IsNotFound holds for the error.
var ErrInvalidName = names.ErrInvalidName
