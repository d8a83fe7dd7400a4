// SPDX-License-Identifier: Apache-2.0

package secrecy_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/clients"
)

var secrets = corev1.SchemeGroupVersion.WithResource("secrets")

// hidden is a typed client without its REST client.
type hidden struct{ typedcorev1.SecretInterface }

// starters start a subject with each kind of client.
var starters = map[string]func(*rig, strategy) *subject{
	"clientset": func(r *rig, s strategy) *subject {
		return newSubject(r, resource.Secrets(clientset(r, r.config)), s)
	},
	"clientset with JSON": func(r *rig, s strategy) *subject {
		config := rest.CopyConfig(r.config)
		config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
		return newSubject(r, resource.Secrets(clientset(r, config)), s)
	},
	"clientset of net-http": func(r *rig, s strategy) *subject {
		config, err := clients.NetHTTP(r.server.Config())
		if err != nil {
			r.Fatal(err)
		}
		return newSubject(r, resource.Secrets(clientset(r, resource.ConfigFor(config))), s)
	},
	"clientset over HTTP/1.1": func(r *rig, s strategy) *subject {
		config := rest.CopyConfig(r.config)
		config.NextProtos = []string{"http/1.1"}
		return newSubject(r, resource.Secrets(clientset(r, config)), s)
	},
	"clientset, its REST client hidden": func(r *rig, s strategy) *subject {
		client := clientset(r, r.config)
		return newSubject(r, clients.Typed(func(namespace string) hidden {
			return hidden{client.CoreV1().Secrets(namespace)}
		}, secrets), s)
	},
	"typed": func(r *rig, s strategy) *subject {
		return newSubject(r, resource.Typed[*corev1.Secret, *corev1.SecretList](clientset(r, r.config).CoreV1().RESTClient(), secrets), s)
	},
	"config": func(r *rig, s strategy) *subject {
		return newSubject(r, resource.FromConfig[*corev1.Secret, *corev1.SecretList](r.config, secrets), s)
	},
	"dynamic": func(r *rig, s strategy) *subject {
		client, err := dynamic.NewForConfig(r.config)
		if err != nil {
			r.Fatal(err)
		}
		return newSubject(r, clients.Dynamic(client, secrets), s)
	},
	"metadata": func(r *rig, s strategy) *subject {
		client, err := metadata.NewForConfig(r.config)
		if err != nil {
			r.Fatal(err)
		}
		return newSubject(r, clients.Metadata(client, secrets), s)
	},
}

func clientset(r *rig, config *rest.Config) kubernetes.Interface {
	r.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		r.Fatal(err)
	}
	return client
}

// strategy is how objects are kept.
type strategy struct {
	options   objectcache.StoreOptions
	transform func(object any)     // may panic
	change    func(*corev1.Secret) // of each write
	unread    bool                 // no read can succeed
}

var strategies = map[string]strategy{
	"watch":     {options: objectcache.WatchOptions{}},
	"TTL":       {options: objectcache.TTLOptions{TTL: time.Second}},
	"direct":    {options: objectcache.DirectOptions{}},
	"idle":      {options: objectcache.WatchOptions{IdleTimeout: time.Second, AcquireOnGet: time.Second}},
	"immutable": {options: objectcache.WatchOptions{}, change: func(s *corev1.Secret) { yes := true; s.Immutable = &yes }},
	"a transform that panics": {
		options: objectcache.WatchOptions{}, unread: true, transform: func(object any) { panic(object) },
	},
	"a transform that panics with a text": {
		options: objectcache.TTLOptions{}, unread: true, transform: func(object any) { panic(fmt.Sprintf("%v", object)) },
	},
}
