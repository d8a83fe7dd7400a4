// SPDX-License-Identifier: Apache-2.0

// Package demo tells a story with a node agent and an API server in one process, and checks that it comes
// true.
//
// [Run] starts the server, fills it with a small workload, starts the agent, and goes through steps: secrets
// appear, are rotated and deleted, pods go, the agent itself is stopped and started again. A step is something
// that is done to the server or to the agent, and facts that must be observed of it:
//
//   - files on disk, read as a container reads them, by name and through links, and compared in content
//     and mode with the objects that the server holds, which are read back through the API;
//   - what the agent reports of volumes that cannot be built;
//   - requests and open watches, as the server counts them.
//
// After each step everything on disk is compared as well, so that what was to stay as it was is looked at too.
//
// Nothing in it sleeps. A fact about files is looked at again after each sync of the agent, one about watches
// after each change that the server notes. The time printed with a fact is that from before the step was done
// to the moment the fact was observed; it includes the look itself, which takes some requests.
//
// The demo proves nothing that the tests of the packages below it do not prove better. It is there to be read
// and watched, and as a smoke test of the whole: [Run] returns an error unless every fact was observed.
package demo
