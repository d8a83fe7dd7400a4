// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/manager/debug"
	"github.com/refwatch/refwatch/manager/metrics"
	"github.com/refwatch/refwatch/objectcache"
)

// observe adds the metrics of the Secrets in memory to those of controller-runtime, and the page /debug/refwatch to the
// server of the metrics. With the stock cache it adds nothing.
func observe(mgr manager.Manager) error {
	held, ok := mgr.GetCache().(*controllerruntime.Cache)
	if !ok {
		return nil
	}
	secrets, err := held.Store(&corev1.Secret{})
	if err != nil {
		return err
	}
	collector, err1 := metrics.NewCollector(map[string]metrics.Store{"secrets": secrets})
	page, err2 := debug.NewHandler(debug.Options{
		Sources: map[string]debug.Source{"secrets": secrets},
		Gates:   map[string]*objectcache.Gate{"cluster": secrets.Stats().Gate},
	})
	return errors.Join(err1, err2,
		ctrlmetrics.Registry.Register(collector),
		mgr.AddMetricsServerExtraHandler("/debug/refwatch", page))
}
