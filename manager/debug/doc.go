// SPDX-License-Identifier: Apache-2.0

// Package debug serves a page, and JSON, of the state of a program's stores: each
// referenced object with its phase, version, owners and errors, the Gates, and the
// connections to the server.
//
// # Usage
//
// Make a [Handler] with [NewHandler] and mount it at any path:
//
//	mux.Handle("/debug/refwatch", handler)
//
// The handler does not look at the path of a request, and all links of the page are
// relative queries ("?sort=name"). So it works behind http.StripPrefix, with a slash at
// the end ("/debug/refwatch/"), and behind a proxy that changes the path.
//
// # Security
//
// The page shows metadata only, and never the data of an object. Metadata is not public,
// though: the page shows the names of Secrets and of the pods that use them, and errors
// with the address of the server. The handler does not authenticate its callers. Serve
// it on a loopback address, or behind a handler that authenticates and authorizes.
//
// On a loopback address it answers requests for localhost and loopback addresses, with any
// port, and 403 to others: a page of the web whose name points to 127.0.0.1 (DNS rebinding)
// cannot read it. This fits "kubectl port-forward". Behind a proxy that keeps the Host header,
// set [Options].AllowedHosts.
//
// The handler takes GET and HEAD only and changes nothing. The page loads nothing from
// anywhere else: style and script are part of it, and its Content-Security-Policy allows
// no others. Names and errors are escaped. No response may be stored by a cache.
//
// # Page
//
// Above the table are the causes: what objects with a problem have in common, such as "200 ×
// forbidden". Each is a link that selects its objects. The table shows problems first, and at most
// 500 objects. What a row has no room for, such as UIDs and further owners, is in its details. A
// phase says what a Get returns; red is what has nothing to return. The page asks the server for its new
// state every two seconds. Without scripts, filter and sort links work as well, and the
// page is loaded again every ten seconds.
//
// Each of these requests ends at once, and none stays open. So the page never holds up
// http.Server.Shutdown, and costs nothing while no browser shows it.
//
// A report takes memory and time in proportion to the number of objects. One report is made
// at a time. Requests for the same that come before it is begun share it, also if the client
// that came first goes away. It is kept compressed until they have read it, for 30 seconds at
// most. Beyond 64 requests, or 8 different answers at a time, requests get status 503 with
// Retry-After. Clients that accept gzip get the compressed answer.
//
// # JSON
//
// A request with the query "format=json", or that prefers application/json in its Accept
// header, gets a [Report]. It holds all objects that match, without a limit. Names of its
// fields do not change; fields may be added.
//
// # Roles
//
// A request with the query "format=roles" gets the RBAC Roles that all objects that match need, as
// YAML: one Role named "refwatch" for each namespace, as of access.Roles, and a ClusterRole for
// cluster-scoped kinds. "phase=Problem&filter=forbidden&format=roles" has those for the objects that
// the server refuses. Apply them after a look: they are what owners name, and an owner may name what
// it should not read.
//
// # Query
//
// The page, JSON and Roles take the same query. An unknown name or value gets status 400, with
// a text that names the known ones.
//
//   - filter: words. An object matches if each of them is part of its namespace and name,
//     resource, phase, UID, version, owners or errors. The case of letters is ignored.
//   - phase: a phase, as [objectcache.Phase], or "Problem" for all that have a problem.
//   - cause: the key of a [Cause].
//   - resource: a key of [Options].Sources.
//   - sort: "problem" (the default), "phase", "name", "changed", "age" or "owners". A minus before
//     it reverses the order ("-age").
//   - format: "html", "json" or "roles". It takes precedence over the Accept header.
package debug
