// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"log"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/test/e2e"
)

// A program starts and stops a cluster itself. In a test, use [e2e.New].
func ExampleStart() {
	ctx := context.Background()
	cluster, err := e2e.Start(ctx, e2e.Options{DisableWatchList: true})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = cluster.Stop() }()
	client := kubernetes.NewForConfigOrDie(cluster.Admin())
	secrets, err := client.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
	fmt.Println(len(secrets.Items), err)
}

// start starts a cluster for the examples below.
func start() *e2e.Cluster {
	cluster, err := e2e.Start(context.Background(), e2e.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return cluster
}

// In a test, New starts a cluster that ends with the test. README shows this.
var _ = func(t *testing.T) {
	cluster := e2e.New(t, e2e.Options{})
	client := kubernetes.NewForConfigOrDie(cluster.Node("node-1"))
	_ = client // read the objects of the node's pods with it
	cluster.APIServer.Kill()
}

// A crash is a kill and a restart.
func ExampleProcess() {
	cluster := start()
	defer func() { _ = cluster.Stop() }()
	cluster.APIServer.Kill()
	if err := cluster.APIServer.Restart(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// Restore rolls etcd back to a snapshot: later writes are lost.
func ExampleCluster_Restore() {
	cluster := start()
	defer func() { _ = cluster.Stop() }()
	ctx := context.Background()
	snapshot, err := cluster.Snapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	// Write some objects here.
	if err := cluster.Restore(ctx, snapshot); err != nil {
		log.Fatal(err)
	}
}

// In a black hole, a client does not notice that its connection is dead.
func ExampleProxy() {
	cluster := start()
	defer func() { _ = cluster.Stop() }()
	client := kubernetes.NewForConfigOrDie(cluster.ThroughProxy(cluster.Node("node-1")))
	_ = client // watch an object with it
	cluster.Proxy.BlackHole(true)
	time.AfterFunc(time.Minute, cluster.Proxy.Reset)
}
