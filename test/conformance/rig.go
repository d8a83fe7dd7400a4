// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/reflector"
)

// Rig is a server as the suite needs it. All fields but Direct are required.
type Rig struct {
	// Config reaches the server with every right. What is put to the test is
	// made of it; it may lead through a proxy.
	Config *rest.Config
	// Direct reaches the server with every right, and is not broken by Cut. The
	// suite itself uses it. Default: Config.
	Direct *rest.Config
	// WaitForStreams returns nil once want watches of single Secrets are open
	// on the server, or ctx's error. The suite opens no others meanwhile.
	WaitForStreams func(ctx context.Context, want int) error
	// Cut breaks all open streams of clients made of Config. They may connect
	// again at once.
	Cut func(ctx context.Context) error
	// Forget makes the server forget all versions before the current one, so
	// that a watch from an older one gets 410.
	Forget func(ctx context.Context) error
}

// Setting says in what way the cases run.
type Setting struct {
	// Server is that of the rig: "in-process" or "real".
	Server string
	// WatchList tells whether that server does WatchList.
	WatchList bool
	// ContentType is what the clients speak; JSON if empty.
	ContentType string
}

// Mode is what a setting is besides its server, as it appears in tests' names
// and in the tables.
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

// engine is what drives the streams of a case.
type engine struct {
	name   string // empty: the case is about the server
	engine reflector.Engine
}

var engines = []engine{{"stream", reflector.StreamEngine}, {"client-go", reflector.ClientGoEngine}}

// Run runs every case on the rig, one after the other: those about the server
// once, all others with each engine.
func Run(t *testing.T, rig Rig, setting Setting, results *Results) {
	if rig.Direct == nil {
		rig.Direct = rig.Config
	}
	rig.Config, rig.Direct = speaking(rig.Config, setting.ContentType), speaking(rig.Direct, setting.ContentType)
	run := func(group group, engine engine) {
		for _, c := range group.cases {
			result := Result{Case: group.name + "/" + c.name, Promise: c.promise, Server: setting.Server, Engine: engine.name, Mode: setting.Mode()}
			t.Run(cmp.Or(engine.name, "any")+"/"+result.Case, func(t *testing.T) {
				defer func() {
					result.Passed = !t.Failed()
					results.add(result)
				}()
				c.run(newSuite(t, rig, setting, engine.engine))
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

// speaking returns a copy of config whose clients speak one content type and
// have no limit of their own.
func speaking(config *rest.Config, contentType string) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.ContentType = cmp.Or(contentType, runtime.ContentTypeJSON)
	if config.ContentType == runtime.ContentTypeJSON {
		config.AcceptContentTypes = runtime.ContentTypeJSON // the clientset prefers protobuf otherwise
	}
	return config
}

// group is what the cases of one part of the library, or of the server, are.
type group struct {
	name  string
	cases []testCase
}

type testCase struct {
	name    string
	promise string // a sentence, for the table
	run     func(*suite)
}

func serverGroup() group { return group{"server", serverCases()} }

func libraryGroups() []group {
	return []group{
		{"reflector", reflectorCases()},
		{"store", storeCases()},
		{"manager", managerCases()},
	}
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
