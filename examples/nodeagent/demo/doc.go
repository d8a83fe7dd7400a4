// SPDX-License-Identifier: Apache-2.0

// Package demo runs a node agent and an API server in one process through a fixed scenario, and checks the result of
// each step.
//
// [Run] starts the server, creates a small workload, starts the agent and runs the steps: Secrets are created, rotated
// and deleted, pods are deleted, the agent is stopped and started again. A step is an action and some checks:
//
//   - files on disk, read as a container reads them, are compared with the objects on the server, which are read
//     through the API: content and mode;
//   - the agent reports a volume that cannot be built, with the cause;
//   - the server counts requests and open watches.
//
// After each step all volumes are compared as well, to see that nothing else has changed.
//
// Nothing sleeps. A check of files is repeated after each sync of the agent, a check of watches after each change of
// the server's counters. The time printed with a check runs from before the action to the moment the check succeeded.
// It includes the check itself, which takes some requests.
//
// The tests of the packages cover more. The demo is there to be read and watched, and is a smoke test of the
// whole: [Run] returns an error unless every check succeeded.
package demo
