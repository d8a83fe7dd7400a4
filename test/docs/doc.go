// SPDX-License-Identifier: Apache-2.0

// Package docs tests the Markdown pages of the repository. It has no other code.
//
// Each code block of a page is checked by its language, and a language that the tests
// do not know is an error:
//
//   - go: the block is part of a Go file of the repository, so a build or a test of its
//     module compiles it. The code of the guides stands in this package, and runs.
//     A line "// ..." stands for lines that are left out.
//   - console: each line that begins with "$ " is a command whose program, files,
//     packages, flags and make targets exist.
//   - yaml: each document with an apiVersion decodes strictly into the type of its kind.
//
// Each relative link leads to a file, and its anchor to a heading. docs/troubleshooting.md
// explains the messages of the library that do not say themselves what to do, and no
// messages that it does not have.
package docs
