// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Rig is a server under test. All fields but Direct are required.
type Rig struct {
	// Config is the configuration of the clients under test. It needs all rights, and may lead through a proxy.
	Config *rest.Config
	// Direct is the configuration of the suite's own client. It needs all rights, and BreakStreams must not affect
	// it. Default: Config.
	Direct *rest.Config
	// WaitForStreams returns nil once exactly want watches of single Secrets are open on the server, or ctx's error.
	// The suite opens no other watches.
	WaitForStreams func(ctx context.Context, want int) error
	// BreakStreams breaks all open streams of clients made from Config. They may connect again at once.
	BreakStreams func(ctx context.Context) error
	// Compact drops the server's history before the current version, so that a watch from an older version gets 410.
	Compact func(ctx context.Context) error
}

// Setting is one way to run the cases.
type Setting struct {
	// Server is the server of the rig: "in-process" or "real".
	Server string
	// WatchList says whether the server supports WatchList.
	WatchList bool
	// ContentType is the media type that clients send and accept. Default: JSON.
	ContentType string
}

// Mode returns the setting without its server, for test names and tables: "WatchList, JSON".
func (s Setting) Mode() string {
	mode, encoding := "list+watch", "JSON"
	if s.WatchList {
		mode = "WatchList"
	}
	if s.ContentType == runtime.ContentTypeProtobuf {
		encoding = "protobuf"
	}
	return mode + ", " + encoding
}

// strategies are the strategies of stores that a case applies to.
type strategies int

const (
	watches strategies = 1 << iota
	ttl
	direct
	everyStrategy = watches | ttl | direct
)

// engine is how the store of a case reads: its strategy and, if it watches, how its reflectors do.
type engine struct {
	name     string // empty: the case is about the server
	strategy strategies
	blocking bool // no stream can be parked
	clientGo bool // client-go's Reflector in place of ours: the cases of reflectors only
}

// parks reports whether the engine parks its streams.
func (e engine) parks() bool { return e.strategy == watches && !e.blocking && !e.clientGo }

// runs reports whether a case applies to the engine. A case about the server has no engine.
func (e engine) runs(group string, c testCase) bool {
	return c.on&e.strategy == e.strategy && (!e.clientGo || group == "reflector")
}

var engines = []engine{
	{name: "parked", strategy: watches},
	{name: "blocking", strategy: watches, blocking: true},
	{name: "client-go", strategy: watches, clientGo: true},
	{name: "TTL", strategy: ttl},
	{name: "direct", strategy: direct},
}

// Run runs every case on the rig, one at a time. A case about the server runs once. Every other case runs with each
// engine that it applies to.
func Run(t *testing.T, rig Rig, setting Setting, results *Results) {
	if rig.Direct == nil {
		rig.Direct = rig.Config
	}
	rig.Config, rig.Direct = withContentType(rig.Config, setting.ContentType), withContentType(rig.Direct, setting.ContentType)
	run := func(group group, engine engine) {
		for _, c := range group.cases {
			if !engine.runs(group.name, c) {
				continue
			}
			result := Result{Case: group.name + "/" + c.name, Promise: c.promise, Server: setting.Server, Engine: engine.name, Mode: setting.Mode()}
			t.Run(cmp.Or(engine.name, "any")+"/"+result.Case, func(t *testing.T) {
				defer func() {
					result.Passed = !t.Failed()
					results.add(result)
				}()
				c.run(newSuite(t, rig, setting, engine))
			})
		}
	}
	run(serverGroup(), engine{})
	for _, engine := range engines {
		for _, group := range libraryGroups() {
			run(group, engine)
		}
	}
}

// withContentType returns a copy of config without a rate limit. Its clients use one content type.
func withContentType(config *rest.Config, contentType string) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.ContentType = cmp.Or(contentType, runtime.ContentTypeJSON)
	if config.ContentType == runtime.ContentTypeJSON {
		config.AcceptContentTypes = runtime.ContentTypeJSON // the clientset prefers protobuf otherwise
	}
	return config
}

// group is the cases of one part of the library, or of the server.
type group struct {
	name  string
	cases []testCase
}

type testCase struct {
	name    string
	promise string // for the table
	run     func(*suite)
	on      strategies // 0: the case is about the server
}

func serverGroup() group { return group{"server", serverCases()} }

func libraryGroups() []group {
	return []group{
		{"reflector", reflectorCases()},
		{"store", storeCases()},
		{"manager", managerCases()},
	}
}

// appliesTo reports whether a case applies to an engine. Cases and engines that are not known apply.
func appliesTo(name, engineName string) bool {
	for _, group := range libraryGroups() {
		for _, c := range group.cases {
			for _, engine := range engines {
				if group.name+"/"+c.name == name && engine.name == engineName {
					return engine.runs(group.name, c)
				}
			}
		}
	}
	return true
}

// Names returns the names of all cases, in order.
func Names() []string {
	var names []string
	for _, group := range append([]group{serverGroup()}, libraryGroups()...) {
		for _, c := range group.cases {
			names = append(names, group.name+"/"+c.name)
		}
	}
	return names
}
