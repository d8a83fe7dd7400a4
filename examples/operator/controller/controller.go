// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/refwatch/refwatch/examples/operator/webv1"
	"github.com/refwatch/refwatch/manager/controllerruntime"
)

// Cache is the cache of the manager.
type Cache string

const (
	// Refwatch caches the Secrets that the controller has asked for.
	Refwatch Cache = "refwatch"
	// Stock is controller-runtime's own cache, which holds all Secrets.
	Stock Cache = "stock"
)

// Options configures the manager. The zero value is valid.
type Options struct {
	// Cache selects the cache. Default: Refwatch.
	Cache Cache
	// CacheSyncTimeout is how long the controller waits for its informers before the manager ends with an error.
	// Default: two minutes, as in controller-runtime.
	CacheSyncTimeout time.Duration
	// LeaderElection makes one of several replicas the leader. It needs a namespace, and rights for a Lease in it.
	LeaderElection bool
	// LeaderElectionNamespace is the namespace of the Lease. Default: that of the pod.
	LeaderElectionNamespace string
	// HealthProbeAddress, MetricsAddress and PprofAddress are addresses to listen on, as HOST:PORT. Default: none.
	// MetricsAddress has the page /debug/refwatch, too. Only one manager of a process may have one.
	HealthProbeAddress, MetricsAddress, PprofAddress string
	// Logger is the logger of the manager, and of the contexts that it makes. Default: that of ctrl.SetLogger.
	Logger logr.Logger
}

// secretNames is the name of the index of Sites by the Secrets that they name.
const secretNames = "spec.secretNames"

// New returns a manager with the controller of Sites. The caller calls its Start.
func New(restConfig *rest.Config, options Options) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), webv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	logger := options.Logger
	if logger.IsZero() {
		logger = ctrl.Log
	}
	managerOptions := ctrl.Options{
		Scheme:                  scheme,
		Logger:                  logger,
		BaseContext:             func() context.Context { return ctrl.LoggerInto(context.Background(), logger) },
		LeaderElection:          options.LeaderElection,
		LeaderElectionID:        "sites.web.example.com",
		LeaderElectionNamespace: options.LeaderElectionNamespace,
		HealthProbeBindAddress:  options.HealthProbeAddress,
		Metrics:                 metricsserver.Options{BindAddress: orNone(options.MetricsAddress)},
		PprofBindAddress:        options.PprofAddress,
		Controller: config.Controller{
			CacheSyncTimeout: options.CacheSyncTimeout,
			// A test starts several managers in one process.
			SkipNameValidation: new(true),
		},
	}
	switch options.Cache {
	case Refwatch, "":
		managerOptions.NewCache = controllerruntime.NewCache(controllerruntime.CacheOptions{}) // the one line
	case Stock:
	default:
		return nil, fmt.Errorf("cache %q is unknown: use %q or %q", options.Cache, Refwatch, Stock)
	}
	mgr, err := ctrl.NewManager(restConfig, managerOptions)
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping)); err != nil {
		return nil, err
	}
	if options.MetricsAddress != "" {
		if err := observe(mgr); err != nil {
			return nil, fmt.Errorf("adding metrics: %w", err)
		}
	}
	return mgr, add(mgr)
}

// orNone returns the address that switches a server of controller-runtime off, if address is empty.
func orNone(address string) string {
	if address == "" {
		return "0"
	}
	return address
}

// add adds the controller to a manager.
func add(mgr manager.Manager) error {
	names := func(obj client.Object) []string { return obj.(*webv1.Site).Spec.SecretNames }
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &webv1.Site{}, secretNames, names); err != nil {
		return fmt.Errorf("adding an index: %w", err)
	}
	if err := mgr.Add(&warmUp{mgr.GetClient()}); err != nil {
		return err
	}
	r := &reconciler{client: mgr.GetClient()}
	return ctrl.NewControllerManagedBy(mgr).
		For(&webv1.Site{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.sitesOf)).
		Complete(r)
}
