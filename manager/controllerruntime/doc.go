// SPDX-License-Identifier: Apache-2.0

// Package controllerruntime is refwatch for programs that use controller-runtime.
package controllerruntime
