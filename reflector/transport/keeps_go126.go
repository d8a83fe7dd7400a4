// SPDX-License-Identifier: Apache-2.0

//go:build !go1.27

package transport

// keepsMaps is documented in keeps_go127.go.
const keepsMaps = false
