// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
)

// Constructors return errors for invalid arguments. Nothing panics later.
func TestConstructorErrors(t *testing.T) {
	var store *objectcache.WatchStore[*corev1.Secret]
	errorOf := func(_ any, err error) error { return err }
	tests := map[string]struct {
		err  error
		want string
	}{
		"no store":      {errorOf(manager.New[*corev1.Secret](nil, nil)), "the store is nil"},
		"a nil store":   {errorOf(manager.New[*corev1.Secret](store, nil)), "the store is nil"},
		"no Secrets":    {errorOf(manager.NewSecrets(nil, objectcache.WatchOptions{})), "manager of Secrets: "},
		"no ConfigMaps": {errorOf(manager.NewConfigMaps(nil, objectcache.WatchOptions{})), "manager of ConfigMaps: "},
		"no config":     {errorOf(manager.ClientFor(nil)), "the config is nil"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", test.err, test.want)
			}
		})
	}
}

func TestNilContext(t *testing.T) {
	var none context.Context
	m := newManager(t, noStore{}, manager.VisitPodSecretNames)
	if err := m.Run(none); !errors.Is(err, objectcache.ErrNilContext) {
		t.Errorf("Run: got %v, want ErrNilContext", err)
	}
	if _, err := m.Get(none, "default", "a"); !errors.Is(err, objectcache.ErrNilContext) {
		t.Errorf("Get: got %v, want ErrNilContext", err)
	}
}
