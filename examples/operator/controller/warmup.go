// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/examples/operator/webv1"
)

// warmUp gets the Secrets of all Sites when the manager starts, so that all are read at once. In its first reconciles a
// worker would wait for one after the other.
type warmUp struct{ client client.Client }

// Start returns when the server has answered for each Secret, or SyncTimeout is over.
func (w *warmUp) Start(ctx context.Context) error {
	var sites webv1.SiteList
	if err := w.client.List(ctx, &sites); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the Sites at the start") // the reconciles read their Secrets
		return nil
	}
	var reads sync.WaitGroup
	for _, site := range sites.Items {
		for _, name := range site.Spec.SecretNames {
			key := client.ObjectKey{Namespace: site.Namespace, Name: name}
			reads.Go(func() { _ = w.client.Get(ctx, key, &corev1.Secret{}) }) // a reconcile gets the error, too
		}
	}
	reads.Wait()
	return nil
}

// NeedLeaderElection returns false: a replica that becomes the leader has the Secrets in memory.
func (w *warmUp) NeedLeaderElection() bool { return false }
