// SPDX-License-Identifier: Apache-2.0

package objectcache

import "github.com/refwatch/refwatch/reflector"

// Gate bounds how many streams are being opened at a time. Stores that reach one
// server as one user share one: see [WatchOptions].Gate.
type Gate = reflector.Gate

// GateOptions configures a [Gate]. The zero value is valid.
type GateOptions = reflector.GateOptions

// NewGate returns a Gate for stores to share.
func NewGate(options GateOptions) *Gate { return reflector.NewGate(options) }
