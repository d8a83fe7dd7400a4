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

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/refwatch/refwatch/manager"
)

const (
	// floorOpens is how many streams the floor opens at a time.
	floorOpens = 64
	// floorProbe is the time between two attempts during an outage.
	floorProbe = 250 * time.Millisecond
)

// floor is the least that a stream per object costs with client-go. It opens WatchList streams, decodes them, and keeps
// the newest object. It counts no references and resumes no stream.
type floor struct {
	ctx    context.Context
	client rest.Interface

	// decoder, serializer and framer decode protobuf streams.
	decoder    runtime.Decoder
	serializer runtime.Serializer
	framer     runtime.Framer

	opens   chan struct{} // has a token for each stream that is being opened
	streams sync.Map      // name to *floorStream
	down    atomic.Bool   // while a probe runs
	probe   singleflight.Group
}

// floorStream is one object.
type floorStream struct {
	name   string
	stop   context.CancelFunc
	synced chan struct{} // closed when the first state is complete
	object atomic.Pointer[corev1.Secret]
}

func newFloor(ctx context.Context, config *rest.Config, _ string) (Contender, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	negotiator := runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), corev1.SchemeGroupVersion)
	decoder, serializer, framer, err := negotiator.StreamDecoder(runtime.ContentTypeProtobuf, nil)
	if err != nil {
		return nil, fmt.Errorf("choosing a decoder: %w", err)
	}
	return &floor{
		ctx: ctx, client: client.CoreV1().RESTClient(),
		decoder: decoder, serializer: serializer, framer: framer, opens: make(chan struct{}, floorOpens),
	}, nil
}

// RegisterPod implements [Registrar].
func (f *floor) RegisterPod(pod *corev1.Pod) {
	manager.VisitPodSecretNames(pod, func(name string) {
		ctx, stop := context.WithCancel(f.ctx)
		stream := &floorStream{name: name, stop: stop, synced: make(chan struct{})}
		f.streams.Store(name, stream)
		go f.run(ctx, pod.Namespace, stream)
	})
}

// UnregisterPod implements [Registrar].
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
	return nil, fmt.Errorf("%s/%s does not exist", namespace, name)
}

// run opens the stream, reads it to its end, and opens it again, until ctx ends.
func (f *floor) run(ctx context.Context, namespace string, stream *floorStream) {
	for ctx.Err() == nil {
		body, err := f.open(ctx, namespace, stream.name)
		if err == nil {
			f.read(body, stream)
			continue
		}
		f.awaitServer(ctx, namespace, stream.name)
	}
}

var errDown = errors.New("the server is down")

func (f *floor) open(ctx context.Context, namespace, name string) (io.ReadCloser, error) {
	f.opens <- struct{}{}
	defer func() { <-f.opens }()
	if f.down.Load() {
		return nil, errDown
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

// awaitServer returns when a stream can be opened, or when ctx ends. One stream probes for all. It is a function of its
// own to keep the frame of run small: 56 bytes more would double the stack of every stream.
func (f *floor) awaitServer(ctx context.Context, namespace, name string) {
	_, _, _ = f.probe.Do("", func() (any, error) {
		f.down.Store(true)
		defer f.down.Store(false)
		ticker := time.NewTicker(floorProbe)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil, nil
			case <-ticker.C:
			}
			if body, err := f.stream(ctx, namespace, name); err == nil {
				return nil, body.Close()
			}
		}
	})
}
