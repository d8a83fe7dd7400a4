// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
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

// Rig is a server as the suite needs it. All fields but Direct and ContentType
// are required.
type Rig struct {
	// Config reaches the server with every right. What is put to the test is
	// made of it; it may lead through a proxy.
	Config *rest.Config
	// Direct reaches the server with every right, and is not broken by Cut. The
	// suite itself uses it. Default: Config.
	Direct *rest.Config
	// ContentType is what the clients speak; JSON if empty.
	ContentType string
	// WatchList tells whether the server does WatchList.
	WatchList bool
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
	if rig.Direct == nil {
		rig.Direct = rig.Config
	}
	rig.Config, rig.Direct = speaking(rig.Config, rig.ContentType), speaking(rig.Direct, rig.ContentType)
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
	client    kubernetes.Interface // of what is put to the test
	admin     kubernetes.Interface // of the suite itself
	namespace string
}

func newSuite(t *testing.T, rig Rig) *suite {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	t.Cleanup(cancel)
	s := &suite{T: t, Rig: rig, ctx: ctx}
	s.client, s.admin = s.connect(rig.Config), s.connect(rig.Direct)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conformance-"}}
	created, err := s.admin.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("namespace: %v", err)
	}
	s.namespace = created.Name
	t.Cleanup(s.cleanup)
	return s
}

// connect returns a client whose connections are closed with the case.
func (s *suite) connect(config *rest.Config) kubernetes.Interface {
	s.Helper()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		s.Fatalf("HTTP client of the rig: %v", err)
	}
	s.Cleanup(httpClient.CloseIdleConnections)
	client, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		s.Fatalf("client of the rig: %v", err)
	}
	return client
}

// cleanup runs when all that the case has started was stopped.
func (s *suite) cleanup() {
	// The context of the test has ended by now.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), caseTimeout)
	defer cancel()
	if err := s.admin.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{}); err != nil {
		s.Errorf("delete namespace: %v", err)
	}
	if err := s.WaitForStreams(ctx, 0); err != nil {
		s.Errorf("streams that the case left open: %v", err)
	}
}
