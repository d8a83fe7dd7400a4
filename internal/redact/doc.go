// SPDX-License-Identifier: Apache-2.0

// Package redact keeps object data out of errors, panics and logs.
//
// [Error] hides the text of an error that may quote an object, [Panic] turns a
// panic into an error without its value, and [Context] caps the verbosity of the
// logger that client-go gets.
package redact
