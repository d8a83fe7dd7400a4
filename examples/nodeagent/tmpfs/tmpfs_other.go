// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package tmpfs

import (
	"errors"
	"os"
)

var errNotLinux = errors.New("only Linux has tmpfs: turn it off in the configuration")

// Mount returns an error.
func Mount(*os.File, Options) error { return errNotLinux }

// Mounted reports false.
func Mounted(_, _ *os.File) (bool, error) { return false, nil }

// Unmount returns an error.
func Unmount(string) error { return errNotLinux }
