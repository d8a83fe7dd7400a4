// SPDX-License-Identifier: Apache-2.0

// Package course has the rules of a reflector's course, each in a file of its own: what is known of
// restores of etcd, which verb the next attempt uses, when a silent stream is compared or replaced, and
// why a session has ended.
//
// A rule is a machine: a value without a lock. Its methods take what has happened, and the time,
// and return what to do. They start nothing, call nothing back, log nothing and do not read the
// clock. Their callers hold the lock of the record that has the value.
package course
