// SPDX-License-Identifier: Apache-2.0

// Package derived keeps what a program computes from objects, once for each version.
//
// [New] takes a store or a manager, and a function, such as one that parses a certificate.
// [Values.Get] and [Values.TryGet] return what the function has computed. With
// [Values.KeepLast] a bad version does not take the last good value away.
package derived
