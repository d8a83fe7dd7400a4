// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// nginx buffers answers unless proxy_buffering is off. It does not wait for more while the server sends nothing: new
// objects are served, and changes are seen.
func TestBufferingFrontEnd(t *testing.T) {
	t.Parallel()
	server := apiserver.New(t, apiserver.Options{})
	front := startNginx(t, frontEndOptions{tls: true, buffers: true, backend: strings.TrimPrefix(server.URL(), "https://")})
	config, _ := configFor(t, front.address)
	config.BearerToken = server.Config().BearerToken
	client, err := manager.ClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	store, err := objectcache.NewWatchStore(resource.Secrets(client), objectcache.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- store.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	written := map[string]string{} // versions by name
	secrets := server.Client().CoreV1().Secrets("default")
	for i := range 3 {
		object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName(i)}}
		if _, err := secrets.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		store.AddReference("default", object.Name, "owner")
		wait, stop := context.WithTimeout(ctx, patience)
		if _, err := store.Get(wait, "default", object.Name); err != nil {
			t.Errorf("a new object: got %v, want none", err)
		}
		stop()
	}
	for i := range 3 {
		object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName(i)}, StringData: map[string]string{"value": fmt.Sprint(i)}}
		updated, err := secrets.Update(ctx, object, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		written[object.Name] = updated.ResourceVersion
	}
	wait, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for change := range store.Changes(wait) {
		if change.Err == nil && change.Object.ResourceVersion == written[change.Key.Name] {
			delete(written, change.Key.Name)
		}
		if len(written) == 0 {
			break
		}
	}
	if len(written) > 0 {
		t.Errorf("changes that were not seen in %v: %v", patience, written)
	}
}
