// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"log"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/test/e2e"
)

// In a test, [e2e.New] starts a cluster and stops it. A program starts and stops it by itself.
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

// start is what the examples below begin with.
func start() *e2e.Cluster {
	cluster, err := e2e.Start(context.Background(), e2e.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return cluster
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

// An etcd that is restored from an older copy takes back what has been written since.
func ExampleCluster_Restore() {
	cluster := start()
	defer func() { _ = cluster.Stop() }()
	ctx := context.Background()
	snapshot, err := cluster.Snapshot(ctx)
	if err != nil {
		log.Fatal(err)
	}
	// Write something.
	if err := cluster.Restore(ctx, snapshot); err != nil {
		log.Fatal(err)
	}
}

// A client behind the proxy does not notice that its connection is dead.
func ExampleProxy() {
	cluster := start()
	defer func() { _ = cluster.Stop() }()
	client := kubernetes.NewForConfigOrDie(cluster.ThroughProxy(cluster.Node("node-1")))
	_ = client // let it watch something
	cluster.Proxy.BlackHole(true)
	time.AfterFunc(time.Minute, cluster.Proxy.Reset)
}
