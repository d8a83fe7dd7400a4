// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// caseTimeout bounds a case: it fails instead of hanging. Nothing in a case
// takes a tenth of it.
const caseTimeout = 2 * time.Minute

// Rig is a server as the suite needs it. All fields but ContentType are
// required.
type Rig struct {
	// Config reaches the server with every right. The suite makes its clients
	// of it; it may lead through a proxy.
	Config *rest.Config
	// ContentType is what the clients speak; JSON if empty.
	ContentType string
	// WatchList tells whether the server does WatchList.
	WatchList bool
	// WaitForStreams returns nil once want watches of single Secrets are open
	// on the server, or ctx's error. The suite opens no others meanwhile.
	WaitForStreams func(ctx context.Context, want int) error
	// Cut breaks all open streams of clients made of Config; they may connect
	// again at once.
	Cut func(ctx context.Context) error
	// Forget makes the server forget all versions before the current one, so
	// that a watch from an older one gets 410.
	Forget func(ctx context.Context) error
}

// Column names what a rig is a rig of, in the table of results.
type Column struct {
	Server      string // "in-process" or "real"
	WatchList   bool
	ContentType string
}

func (c Column) String() string {
	mode, encoding := "list+watch", "JSON"
	if c.WatchList {
		mode = "WatchList"
	}
	if c.ContentType == runtime.ContentTypeProtobuf {
		encoding = "protobuf"
	}
	return strings.Join([]string{c.Server, mode, encoding}, ", ")
}

// Run runs every case on the rig, one after the other.
func Run(t *testing.T, rig Rig, column Column, results *Results) {
	rig.Config = rest.CopyConfig(rig.Config)
	rig.Config.QPS = -1
	rig.Config.ContentType = rig.ContentType
	if rig.ContentType == runtime.ContentTypeJSON || rig.ContentType == "" {
		// The clientset prefers protobuf unless it is told otherwise.
		rig.Config.ContentType, rig.Config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	}
	for _, group := range groups() {
		for _, c := range group.cases {
			name := group.name + "/" + c.name
			t.Run(name, func(t *testing.T) {
				defer func() { results.add(name, c.promise, column, !t.Failed()) }()
				c.run(newSuite(t, rig))
			})
		}
	}
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

func groups() []group {
	return []group{
		{"server", serverCases()},
		{"reflector", reflectorCases()},
		{"store", storeCases()},
		{"manager", managerCases()},
	}
}

// Names returns the names of all cases, in order.
func Names() []string {
	var names []string
	for _, group := range groups() {
		for _, c := range group.cases {
			names = append(names, group.name+"/"+c.name)
		}
	}
	return slices.Clip(names)
}

// suite is what a case works with: a namespace of its own, and a client.
type suite struct {
	*testing.T
	Rig

	ctx       context.Context
	client    kubernetes.Interface
	namespace string
}

func newSuite(t *testing.T, rig Rig) *suite {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	t.Cleanup(cancel)
	httpClient, err := rest.HTTPClientFor(rig.Config)
	if err != nil {
		t.Fatalf("HTTP client of the rig: %v", err)
	}
	client, err := kubernetes.NewForConfigAndClient(rig.Config, httpClient)
	if err != nil {
		t.Fatalf("client of the rig: %v", err)
	}
	s := &suite{T: t, Rig: rig, ctx: ctx, client: client}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conformance-"}}
	created, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("namespace: %v", err)
	}
	s.namespace = created.Name
	t.Cleanup(func() {
		// The context of the test has ended by now.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), caseTimeout)
		defer cancel()
		if err := client.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete namespace: %v", err)
		}
		if err := rig.WaitForStreams(ctx, 0); err != nil {
			t.Errorf("streams that the case left open: %v", err)
		}
		httpClient.CloseIdleConnections()
	})
	return s
}
