// SPDX-License-Identifier: Apache-2.0

// Package controllerruntime is refwatch for programs that use controller-runtime. It is a
// module of its own, so that only they depend on controller-runtime.
//
// # One line
//
// [NewCache] takes the place of the cache of controller-runtime's manager:
//
//	mgr, err := ctrl.NewManager(config, ctrl.Options{
//		NewCache: controllerruntime.NewCache(controllerruntime.CacheOptions{}),
//	})
//
// The stock cache lists and watches all Secrets of the cluster for the first Get of one.
// With this line each Secret that a Get asks for has a list and watch of its own, selected
// by its name. The program needs the verbs list and watch with resourceNames, and memory
// for these Secrets only. Reconcilers stay as they are: Get is answered from memory, and
// Owns and Watches have events. Objects are whole, with their managedFields. NewCache says what is
// different.
//
// # More control
//
// A reconciler can set the references of its object itself, and so end a stream with its
// last owner instead of by time. manager.Manager is refwatch's:
//
//   - manager.Manager.SetReferences declares what the object needs.
//   - [NewSource] enqueues the object when something that it references changes.
//   - [NewRunnable] runs the manager.Manager on each replica.
//   - [NewReader] reads from it where a client.Reader is wanted.
//
// # Health, metrics and logs
//
// [Healthz] is a readiness check for both. One Secret that is forbidden does not make it
// fail. [Cache.Store] returns what the metrics and the debug page of refwatch need.
//
// Log lines go to the logger of ctrl.SetLogger, unless the context of
// ctrl.Options.BaseContext has one. The logger of ctrl.Options.Logger does not arrive here.
//
// # Concurrency
//
// All functions and methods are safe for concurrent use. [Cache.Start] and
// [Runnable.Start] return when all goroutines that they started have ended.
package controllerruntime
