// SPDX-License-Identifier: Apache-2.0

package resource

import "github.com/refwatch/refwatch/objectcache/internal/names"

// ErrInvalidName is returned for a namespace or name that no object can have. No request is
// ever sent for it. apierrors.IsNotFound holds for the error, unless the key has no name or the wrong scope.
var ErrInvalidName = names.ErrInvalidName
