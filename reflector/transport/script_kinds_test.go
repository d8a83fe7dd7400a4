// SPDX-License-Identifier: Apache-2.0

package transport

// clientKinds returns the clients that every test of this suite runs with.
func clientKinds() []clientKind { return []clientKind{reference} }
