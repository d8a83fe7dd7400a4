// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

// Cache and Runnable log to the logger of ctrl.SetLogger. If the context of
// ctrl.Options.BaseContext has a logger, they log to that one.
func TestLogger(t *testing.T) {
	for name, test := range map[string]struct {
		inContext bool
		want      string
	}{
		"of ctrl.SetLogger": {false, "refwatch of SetLogger"},
		"of BaseContext":    {true, "refwatch of BaseContext"},
	} {
		t.Run(name, func(t *testing.T) {
			onServer(t, func(t *testing.T, server *apiserver.Server) {
				server.Authorize(func(r apiserver.Request) bool { return r.Resource != "secrets" })
				var lines events
				linesOf := func(logger string) func(prefix, args string) {
					return func(prefix, args string) {
						if strings.Contains(args, "Cannot read the object") {
							lines.add("%s of %s", prefix, logger)
						}
					}
				}
				rootLines.Store(new(linesOf("SetLogger")))
				defer rootLines.Store(nil)
				options := ctrl.Options{
					NewCache:   controllerruntime.NewCache(controllerruntime.CacheOptions{}),
					Metrics:    metricsserver.Options{BindAddress: "0"},
					Controller: config.Controller{SkipNameValidation: new(true)},
				}
				if test.inContext {
					options.BaseContext = func() context.Context {
						return logf.IntoContext(t.Context(), funcr.New(linesOf("BaseContext"), funcr.Options{}))
					}
				}
				mgr, err := ctrl.NewManager(server.Config(), options)
				if err != nil {
					t.Fatal(err)
				}
				secrets, err := manager.NewSecrets(server.Client(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := mgr.Add(controllerruntime.NewRunnable(secrets)); err != nil {
					t.Fatal(err)
				}
				stop := start(t, mgr)
				time.Sleep(time.Minute)
				if err := mgr.GetCache().Get(t.Context(), keyOfOne, &corev1.Secret{}); err == nil {
					t.Error("Get: got no error, want one")
				}
				lines.want(t, "cache", test.want)
				secrets.SetReferences(manager.Owner{Kind: "Test", Name: "owner"}, keyOfOne)
				lines.want(t, "runnable", test.want)
				stop()
			})
		})
	}
}
