// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/reflector"
)

// caseTimeout bounds a case: it fails instead of hanging. Nothing in a case
// takes a tenth of it.
const caseTimeout = 2 * time.Minute

// suite is what a case works with: a namespace of its own, and a client.
type suite struct {
	*testing.T
	Rig
	Setting

	engine    reflector.Engine
	ctx       context.Context
	client    kubernetes.Interface // of what is put to the test
	admin     kubernetes.Interface // of the suite itself
	namespace string
}

func newSuite(t *testing.T, rig Rig, setting Setting, engine reflector.Engine) *suite {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	t.Cleanup(cancel)
	s := &suite{T: t, Rig: rig, Setting: setting, engine: engine, ctx: ctx}
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
	s.Cleanup(func() { utilnet.CloseIdleConnectionsFor(httpClient.Transport) })
	client, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		s.Fatalf("client of the rig: %v", err)
	}
	return client
}

// options are those of a store, which chooses its engine by them.
func (s *suite) options() objectcache.WatchOptions {
	return objectcache.WatchOptions{ClientGoReflector: s.engine == reflector.ClientGoEngine}
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
