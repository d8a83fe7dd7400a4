// SPDX-License-Identifier: Apache-2.0

package kubelet_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/kubelet"
)

// The error of a sync that failed has kubelet's text, and its cause in the text and in the chain.
func TestSyncErrorHasItsCause(t *testing.T) {
	onOurs(t, func(r *rig) {
		refusal := apierrors.NewForbidden(corev1.Resource(r.kind.resource), "tls", errors.New("no relationship found"))
		r.server.Intercept(func(context.Context, apiserver.Request) *metav1.Status { return &refusal.ErrStatus })
		r.RegisterPod(r.pod("1", "tls"))
		err := r.wantError("tls")
		if !errors.Is(err, objectcache.ErrNotSynced) || !apierrors.IsForbidden(err) {
			r.t.Errorf("got %v, want ErrNotSynced and Forbidden in the chain", err)
		}
		prefix := "failed to sync " + r.kind.name + " cache: timed out waiting for the condition: " + r.kind.resource + ` "default/tls": `
		if !strings.HasPrefix(err.Error(), prefix) || !strings.Contains(err.Error(), "no relationship found") {
			r.t.Errorf("got text %q, want %q and then the cause", err, prefix)
		}
	})
}

func TestTimeoutInChain(t *testing.T) {
	onOurs(t, func(r *rig) {
		defer r.holdBack()()
		r.RegisterPod(r.pod("1", "tls"))
		if err := r.wantError("tls"); !errors.Is(err, context.DeadlineExceeded) || !wait.Interrupted(err) {
			r.t.Errorf("got %v, want DeadlineExceeded and wait.Interrupted", err)
		}
	})
}

func TestOtherCausesInChain(t *testing.T) {
	onOurs(t, func(r *rig) {
		if err := r.wantError("tls"); !errors.Is(err, objectcache.ErrNotRegistered) {
			r.t.Errorf("not registered: got %v, want ErrNotRegistered in the chain", err)
		}
		if err := r.wantError("Upper"); !errors.Is(err, objectcache.ErrInvalidName) || !apierrors.IsNotFound(err) {
			r.t.Errorf("invalid name: got %v, want NotFound and ErrInvalidName in the chain", err)
		}
		r.RegisterPod(r.pod("1", "tls"))
		r.stop()
		r.stop = func() {}
		began := time.Now()
		err := r.wantError("tls")
		if !errors.Is(err, objectcache.ErrStopped) || apierrors.IsNotFound(err) {
			r.t.Errorf("after the end: got %v, want ErrStopped in the chain", err)
		}
		if want := "failed to sync " + r.kind.name + " cache: " + r.kind.resource + ` "default/tls": `; !strings.HasPrefix(err.Error(), want) {
			r.t.Errorf("after the end: got text %q, want it to begin with %q", err, want)
		}
		if took := time.Since(began); took != 0 {
			r.t.Errorf("after the end: GetObject took %v, want none", took)
		}
	})
}

// GetSecret and GetConfigMap return a nil with an error, and none with an object.
func TestTypedGet(t *testing.T) {
	onOurs(t, func(r *rig) {
		var get func(namespace, name string) (runtime.Object, bool, error)
		switch m := r.Manager.(type) {
		case *kubelet.SecretManager:
			get = func(namespace, name string) (runtime.Object, bool, error) {
				got, err := m.GetSecret(namespace, name)
				return got, got == nil, err
			}
		case *kubelet.ConfigMapManager:
			get = func(namespace, name string) (runtime.Object, bool, error) {
				got, err := m.GetConfigMap(namespace, name)
				return got, got == nil, err
			}
		}
		r.write("tls", "1", false)
		r.RegisterPod(r.pod("1", "tls", "absent"))
		if got, isNil, err := get(namespace, "tls"); err != nil || isNil || r.kind.value(got) != "1" {
			r.t.Errorf("got %v, %v, want the object", got, err)
		}
		if got, isNil, err := get(namespace, "absent"); !isNil || !apierrors.IsNotFound(err) {
			r.t.Errorf("absent: got %v, %v, want nil, NotFound", got, err)
		}
	})
}

func TestTimeoutOption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true})
		objects, err := manager.NewSecrets(server.Client(), objectcache.WatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := kubelet.NewSecretManager(objects, kubelet.Options{Timeout: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t, kind: secrets, server: server, Manager: m}
		m.RegisterPod(r.pod("1", "tls"))
		began := time.Now()
		if err := r.wantError("tls"); !errors.Is(err, objectcache.ErrNotStarted) {
			t.Errorf("got %v, want ErrNotStarted in the chain", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("GetObject took %v, want 3s", took)
		}
	})
}

func TestConstructorErrors(t *testing.T) {
	server := apiserver.New(t, apiserver.Options{})
	objects, err := manager.NewSecrets(server.Client(), objectcache.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		make func() error
		want string
	}{
		"nil manager":               {func() error { _, err := kubelet.NewSecretManager(nil, kubelet.Options{}); return err }, "the manager is nil"},
		"nil manager of ConfigMaps": {func() error { _, err := kubelet.NewConfigMapManager(nil, kubelet.Options{}); return err }, "the manager is nil"},
		"negative time-out": {func() error {
			_, err := kubelet.NewSecretManager(objects, kubelet.Options{Timeout: -1})
			return err
		}, "Options.Timeout is -1ns"},
		"nil client":               {func() error { _, err := kubelet.NewWatchingSecretManager(nil, 0, nil); return err }, "client"},
		"nil client of ConfigMaps": {func() error { _, err := kubelet.NewWatchingConfigMapManager(nil, 0, nil); return err }, "client"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := test.make(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}
