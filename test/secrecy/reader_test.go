// SPDX-License-Identifier: Apache-2.0

package secrecy_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/derived"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/clients"
)

const (
	// asReader in the environment makes the test binary a reader, in the mode of that
	// name. readerFolder has its kubeconfig, and gets its dumps.
	asReader     = "REFWATCH_SECRECY_READER"
	readerFolder = "REFWATCH_SECRECY_FOLDER"

	objects = 10
	// updatedLength is the length of values after the update. The reader knows no value.
	updatedLength = 2 * 32
)

// reader is a program that references Secrets, in a process of its own: the test, which
// makes their values, is not in its memory.
type reader struct {
	objectcache.Store[*corev1.Secret]

	mode  string
	input *bufio.Scanner
}

// modes are the ways in which a reader keeps and reads its objects.
var modes = map[string]struct {
	options objectcache.StoreOptions
	json    bool // instead of protobuf
	netHTTP bool // its connections are those of net/http
}{
	"parked":    {options: objectcache.WatchOptions{}},
	"JSON":      {options: objectcache.WatchOptions{}, json: true},
	"net-http":  {options: objectcache.WatchOptions{}, netHTTP: true},
	"TTL":       {options: objectcache.TTLOptions{TTL: time.Millisecond}, netHTTP: true},
	"direct":    {options: objectcache.DirectOptions{}, netHTTP: true},
	"derived":   {options: objectcache.WatchOptions{}},
	"immutable": {options: objectcache.WatchOptions{}},
	"leaking":   {options: objectcache.WatchOptions{}}, // keeps a value, so that the test has something to find
}

// leak is what the reader keeps in the mode "leaking".
var leak []byte

// readAndDump references and reads all objects, waits for an update, and removes the
// references. It dumps its heap before, after, and once its connections are closed.
func readAndDump() int {
	r := &reader{mode: os.Getenv(asReader), input: bufio.NewScanner(os.Stdin)}
	if err := r.run(context.Background()); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func (r *reader) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(os.Getenv(readerFolder), "kubeconfig"))
	if err != nil {
		return err
	}
	if r.mode == "net-http" {
		if config, err = clients.NetHTTP(config); err != nil {
			return err
		}
	}
	config = resource.ConfigFor(config)
	if modes[r.mode].json {
		config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	closeSoon(httpClient.Transport)
	client, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return err
	}
	if r.Store, err = objectcache.NewStore(resource.Secrets(client), modes[r.mode].options); err != nil {
		return err
	}
	for i := range objects {
		r.AddReference(namespace, nameOf(i), "pod")
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Store.Run(ctx) }()
	if err := r.readAll(ctx, 1); err != nil {
		return err
	}
	if err := r.dump("referenced"); err != nil {
		return err
	}
	if r.mode != "immutable" {
		if err := r.readAll(ctx, updatedLength); err != nil {
			return err
		}
	}
	for i := range objects {
		r.DeleteReference(namespace, nameOf(i), "pod")
	}
	if err := r.dump("released"); err != nil {
		return err
	}
	utilnet.CloseIdleConnectionsFor(httpClient.Transport)
	for running("net/http.") { // the goroutines of the connections
		runtime.Gosched()
	}
	for r.input.Text() != "end" {
		if err := r.dump("closed"); err != nil {
			return err
		}
	}
	cancel()
	return <-ended
}

func nameOf(i int) string { return fmt.Sprint("tls-", i) }

// readAll reads all objects until their values have a length. It follows Changes, and
// uses Get if the store has none.
func (r *reader) readAll(ctx context.Context, length int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	values := derived.New(r.Store, func(s *corev1.Secret) (string, error) {
		return "derived from " + string(s.Data["password"]), nil
	})
	long := map[string]bool{}
	if _, ok := modes[r.mode].options.(objectcache.WatchOptions); ok {
		for change := range r.Changes(ctx) {
			if change.Object != nil && len(change.Object.Data["password"]) >= length {
				long[change.Key.Name] = true
			}
			if len(long) == objects {
				break
			}
		}
	}
	for i := range objects {
		for {
			secret, err := r.Get(ctx, namespace, nameOf(i))
			if err != nil {
				return err
			}
			if _, err := values.Get(ctx, namespace, nameOf(i)); err != nil {
				return err
			}
			if r.mode == "leaking" && i == 0 {
				leak = secret.Data["password"][8:24]
			}
			if len(secret.Data["password"]) >= length {
				break
			}
		}
	}
	return nil
}

// dump reports what it has done, waits for a line of the test, and writes the heap.
func (r *reader) dump(name string) error {
	fmt.Println(name)
	r.input.Scan()
	for range 4 { // pools keep what they have for two collections
		runtime.GC()
	}
	file, err := os.Create(filepath.Join(os.Getenv(readerFolder), name))
	if err != nil {
		return err
	}
	debug.WriteHeapDump(file.Fd())
	if err := file.Close(); err != nil {
		return err
	}
	fmt.Println("dumped")
	return nil
}

// closeSoon sets how long net/http's connections stay idle, instead of 90 s. A timer of
// that length holds each connection, and its read buffers, also after it was closed. A
// second one is that of client-go's pings, which the test has shortened.
func closeSoon(transport http.RoundTripper) {
	for {
		if base, ok := transport.(*http.Transport); ok {
			base.IdleConnTimeout = time.Second
			return
		}
		transport = transport.(utilnet.RoundTripperWrapper).WrappedRoundTripper()
	}
}

// running reports whether a goroutine runs a function of a package.
func running(name string) bool {
	stacks := make([]byte, 1<<20)
	return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte(name))
}
