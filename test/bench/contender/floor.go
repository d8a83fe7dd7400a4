// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/refwatch/refwatch/manager"
)

const (
	// floorOpens is how many streams are being opened at once.
	floorOpens = 64
	// floorProbe is the time between two attempts while the server is away.
	floorProbe = 250 * time.Millisecond
)

// floor is what a stream per object costs at least with client-go: it opens WatchList streams, decodes them, and
// keeps the newest object. It has no reference counts, resumes nothing, and takes the server's word for everything.
type floor struct {
	ctx    context.Context
	client rest.Interface
	follow func(*corev1.Secret)
	// decoder, serializer and framer are what a stream's content type asks for.
	decoder    runtime.Decoder
	serializer runtime.Serializer
	framer     runtime.Framer
	opens      chan struct{} // has a token for each open under way

	streams sync.Map // name to *floorStream

	mu   sync.Mutex
	back chan struct{} // closed when the server is back; nil while it is there
}

// floorStream is one object.
type floorStream struct {
	name   string
	stop   context.CancelFunc
	synced chan struct{} // closed once the first state is complete
	object atomic.Pointer[corev1.Secret]
}

func newFloor(ctx context.Context, options Options) (Contender, error) {
	client, err := newClient(options.Config)
	if err != nil {
		return nil, err
	}
	negotiator := runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), corev1.SchemeGroupVersion)
	decoder, serializer, framer, err := negotiator.StreamDecoder(runtime.ContentTypeProtobuf, nil)
	if err != nil {
		return nil, fmt.Errorf("choosing a decoder: %w", err)
	}
	return &floor{
		ctx: ctx, client: client.CoreV1().RESTClient(), follow: options.Follow,
		decoder: decoder, serializer: serializer, framer: framer, opens: make(chan struct{}, floorOpens),
	}, nil
}

// RegisterPod implements [Contender]. No two pods may reference the same secret.
func (f *floor) RegisterPod(pod *corev1.Pod) {
	manager.VisitPodSecretNames(pod, func(name string) {
		ctx, stop := context.WithCancel(f.ctx)
		stream := &floorStream{name: name, stop: stop, synced: make(chan struct{})}
		f.streams.Store(name, stream)
		go f.run(ctx, pod.Namespace, stream)
	})
}

// UnregisterPod implements [Contender].
func (f *floor) UnregisterPod(pod *corev1.Pod) {
	manager.VisitPodSecretNames(pod, func(name string) {
		if stream, ok := f.streams.LoadAndDelete(name); ok {
			stream.(*floorStream).stop()
		}
	})
}

// Get implements [Contender].
func (f *floor) Get(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	found, ok := f.streams.Load(name)
	if !ok {
		return nil, fmt.Errorf("%s/%s is not registered", namespace, name)
	}
	stream := found.(*floorStream)
	if object := stream.object.Load(); object != nil {
		return object, nil
	}
	select {
	case <-stream.synced:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for %s/%s: %w", namespace, name, ctx.Err())
	}
	if object := stream.object.Load(); object != nil {
		return object, nil
	}
	return nil, notFound(nil, name)
}

// run opens the stream, reads it to its end, and opens it again, until ctx ends.
func (f *floor) run(ctx context.Context, namespace string, stream *floorStream) {
	for ctx.Err() == nil {
		body, err := f.open(ctx, namespace, stream.name)
		if err == nil {
			f.read(body, stream)
			continue
		}
		f.waitBack(ctx, namespace, stream.name)
	}
}

func (f *floor) open(ctx context.Context, namespace, name string) (io.ReadCloser, error) {
	f.opens <- struct{}{}
	defer func() { <-f.opens }()
	if f.away() != nil {
		return nil, errAway
	}
	return f.stream(ctx, namespace, name)
}

func (f *floor) stream(ctx context.Context, namespace, name string) (io.ReadCloser, error) {
	yes := true
	return f.client.Get().Namespace(namespace).Resource("secrets").MaxRetries(0).
		VersionedParams(&metav1.ListOptions{
			Watch: true, AllowWatchBookmarks: true,
			SendInitialEvents:    &yes,
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			FieldSelector:        fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(),
		}, scheme.ParameterCodec).Stream(ctx)
}

// read keeps the newest state until the stream ends.
func (f *floor) read(body io.ReadCloser, stream *floorStream) {
	frames := streaming.NewDecoder(f.framer.NewFrameReader(body), f.serializer)
	decoder := restwatch.NewDecoder(frames, f.decoder)
	defer decoder.Close()
	for {
		kind, object, err := decoder.Decode()
		if err != nil || kind == watch.Error {
			return
		}
		secret, ok := object.(*corev1.Secret)
		switch {
		case !ok:
			return
		case kind == watch.Bookmark:
			if secret.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
				stream.sync()
			}
		case kind == watch.Deleted:
			stream.object.Store(nil)
		default:
			stream.object.Store(secret)
			if f.follow != nil {
				f.follow(secret)
			}
		}
	}
}

// sync is called by the stream's own goroutine only.
func (s *floorStream) sync() {
	select {
	case <-s.synced:
	default:
		close(s.synced)
	}
}

// errAway says that somebody else is asking whether the server is back.
var errAway = errors.New("the server is away")

// away returns what is closed when the server is back, or nil if it is there.
func (f *floor) away() chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.back
}

// waitBack returns when the server answers again. The first to come probes, the others wait for it.
func (f *floor) waitBack(ctx context.Context, namespace, name string) {
	f.mu.Lock()
	if back := f.back; back != nil {
		f.mu.Unlock()
		select {
		case <-back:
		case <-ctx.Done():
		}
		return
	}
	back := make(chan struct{})
	f.back = back
	f.mu.Unlock()

	f.probe(ctx, namespace, name)

	f.mu.Lock()
	f.back = nil
	f.mu.Unlock()
	close(back)
}

func (f *floor) probe(ctx context.Context, namespace, name string) {
	ticker := time.NewTicker(floorProbe)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if body, err := f.stream(ctx, namespace, name); err == nil {
			_ = body.Close()
			return
		}
	}
}
