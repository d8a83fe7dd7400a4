// SPDX-License-Identifier: Apache-2.0

// Package refwatch only documents the packages of this module. Programs import those:
//
//   - [github.com/refwatch/refwatch/manager]: start here. It registers pods and other
//     owners, and caches the Secrets, ConfigMaps or other objects that they reference.
//   - [github.com/refwatch/refwatch/objectcache]: the stores below it, their options and
//     strategies.
//   - [github.com/refwatch/refwatch/objectcache/resource]: kinds of objects, and how to
//     reach them.
//   - [github.com/refwatch/refwatch/objectcache/access]: Roles for what is read.
//   - [github.com/refwatch/refwatch/objectcache/derived]: what is computed from objects.
//   - [github.com/refwatch/refwatch/reflector]: keeps a client-go store or queue equal to one
//     selection on the server, for programs that need no more.
//   - [github.com/refwatch/refwatch/cache]: what an object is, and the errors about one.
//   - [github.com/refwatch/refwatch/manager/listers]: client-go's listers on a manager.
//   - [github.com/refwatch/refwatch/manager/debug]: a page that shows each object.
//   - [github.com/refwatch/refwatch/manager/metrics]: metrics with component-base.
//   - [github.com/refwatch/refwatch/featuregates]: options from feature gates.
//   - [github.com/refwatch/refwatch/test/apiserver]: an API server for tests.
//
// The module github.com/refwatch/refwatch/manager/controllerruntime has a cache for
// programs that use controller-runtime.
//
// README.md has an example, docs/guides has a guide for node agents, one for controllers
// and one for programs that move from other caches, and docs/troubleshooting.md explains
// errors and log lines.
package refwatch
