// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// running returns a running manager of Secrets, and a function that ends it. The server
// has the Secret "tls", and refuses access to "locked".
func running(ctx context.Context) (secrets *manager.Manager[*corev1.Secret], stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	server := serve(ctx)
	server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
		if request.Name == "locked" {
			return &apierrors.NewForbidden(corev1.Resource("secrets"), request.Name, errors.New("no Role names it")).ErrStatus
		}
		return nil
	})
	secrets, err := manager.NewSecrets(server.Client(), objectcache.WatchOptions{RefusalGrace: 100 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	var runs sync.WaitGroup
	runs.Go(func() { _ = secrets.Run(ctx) })
	return secrets, func() { cancel(); runs.Wait(); server.Close() }
}

// Every reference has a first state: the object exists, it is absent, or the server
// refuses to let the manager read it.
func ExampleManager_Changes() {
	ctx := context.Background()
	secrets, stop := running(ctx)
	defer stop()
	states := map[string]string{}
	secrets.SetReferences(manager.Owner{Kind: "Ingress", Name: "web"}, key("tls"), key("missing"), key("locked"))
	for change, owners := range secrets.Changes(ctx) {
		state := change.Key.Name + " for " + owners[0].Name + ": "
		switch {
		case change.Err == nil:
			state += fmt.Sprint(len(change.Object.Data), " key")
		case change.Deleted:
			state += "deleted"
		case apierrors.IsNotFound(change.Err):
			state += "absent"
		case apierrors.IsForbidden(change.Err):
			state += "forbidden"
		}
		if states[change.Key.Name] = state; len(states) == 3 {
			break
		}
	}
	fmt.Println(states["tls"])
	fmt.Println(states["missing"])
	fmt.Println(states["locked"])
	// Output:
	// tls for web: 1 key
	// missing for web: absent
	// locked for web: forbidden
}

// A wait ends when all objects that can have synced. The error has the others.
func ExampleManager_WaitForSync() {
	secrets, stop := running(context.Background())
	defer stop()
	web, api := manager.Owner{Kind: "Ingress", Name: "web"}, manager.Owner{Kind: "Ingress", Name: "api"}
	secrets.SetReferences(web, key("tls"), key("missing"))
	secrets.SetReferences(api, key("tls"), key("locked"))

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Println("web:", secrets.WaitForOwner(ctx, web), secrets.OwnerHasSynced(web))
	err := secrets.WaitForSync(ctx)
	fmt.Println("all:", apierrors.IsForbidden(err), secrets.HasSynced(), secrets.HasSynced(key("tls"), key("missing")))
	fmt.Println(err.Error()[:len(`1 of 3 objects did not sync: secrets "default/locked"`)])
	// Output:
	// web: <nil> true
	// all: true false true
	// 1 of 3 objects did not sync: secrets "default/locked"
}

// A manager lists its owners, and what each of them references.
func ExampleManager_Owners() {
	secrets, stop := running(context.Background())
	defer stop()
	gateway := manager.Owner{Kind: "Gateway", Namespace: "infra", Name: "public", UID: "77aa"}
	secrets.SetReferences(gateway, key("tls"), key("missing")) // in another namespace than its own
	secrets.RegisterPod(podOf("1", "tls"))

	for owner := range secrets.Owners() {
		fmt.Println(owner.Kind, owner.Name, secrets.References(owner))
	}
	fmt.Println(len(secrets.OwnersOf("default", "tls")), "owners of tls")
	secrets.SetReferences(manager.Owner{UID: "77aa"}) // the UID is enough to forget the gateway
	fmt.Println(len(secrets.OwnersOf("default", "tls")), "owner of tls")
	// Output:
	// Gateway public [default/missing default/tls]
	// Pod pod-1 [default/tls]
	// 2 owners of tls
	// 1 owner of tls
}
