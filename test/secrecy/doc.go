// SPDX-License-Identifier: Apache-2.0

// Package secrecy holds the tests of what SECURITY.md promises of object data: no output
// of the library has any, under any fault, with any client and strategy, and after the
// last reference none is left in memory.
package secrecy
