// SPDX-License-Identifier: Apache-2.0

// Package canary makes values for Secrets of tests, and finds them, or parts of them, in
// the output of a program.
//
//	var canaries canary.Canaries
//	secret.Data["password"] = []byte(canaries.New())
//	// ...
//	canaries.Check(t, "log", log.Take()) // log := canary.CaptureLog(t) before
//	canaries.Check(t, "error of Get", canary.Print(err))
//
// A part of eight bytes is found in five encodings, in whatever text surrounds it:
//
//   - raw, also where JSON, %q and the right column of a hex dump leave it as it is
//   - base64 in both alphabets, wherever the value begins in the encoded bytes, padded or
//     not
//   - hexadecimal digits in both cases, also with spaces between the bytes
//   - numbers, as fmt prints a []byte with %v, %d and %#v, and as a JSON array
//   - a URL, escaped as a path or as a query
//
// What is compressed or encrypted is not found, nor what is reversed or split.
package canary
