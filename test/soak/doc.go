// SPDX-License-Identifier: Apache-2.0

// Package soak
package soak
