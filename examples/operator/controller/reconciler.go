// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/refwatch/refwatch/examples/operator/webv1"
)

// reconciler sets the status of Sites.
type reconciler struct {
	client client.Client
}

// Reconcile reads the Secrets that a Site names, and writes its status. If the server refuses a Secret, Reconcile
// returns the error, and is called again later. If a Secret does not exist, it is called when the Secret is created.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	site := &webv1.Site{}
	if err := r.client.Get(ctx, request.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // a deleted Site needs nothing
	}
	before := site.DeepCopy()
	failed := r.observe(ctx, site)
	if ctx.Err() != nil {
		return ctrl.Result{}, context.Cause(ctx) // the manager ends: what was observed is not the Secrets' state
	}
	if !equality.Semantic.DeepEqual(before.Status, site.Status) {
		if err := r.client.Status().Patch(ctx, site, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			failed = errors.Join(failed, fmt.Errorf("writing the status: %w", err))
		}
	}
	return ctrl.Result{}, failed
}

// observe reads the Secrets, and sets the status of the Site. It returns the errors other than NotFound.
func (r *reconciler) observe(ctx context.Context, site *webv1.Site) (failed error) {
	site.Status.ObservedGeneration = site.Generation
	site.Status.Secrets = nil
	ready := metav1.Condition{
		Type: webv1.Ready, Status: metav1.ConditionTrue, ObservedGeneration: site.Generation, Reason: "SecretsRead",
	}
	var problems []string
	for _, name := range site.Spec.SecretNames {
		secret := &corev1.Secret{}
		err := r.client.Get(ctx, client.ObjectKey{Namespace: site.Namespace, Name: name}, secret)
		site.Status.Secrets = append(site.Status.Secrets, statusOf(name, secret, err))
		if err == nil {
			continue
		}
		if !apierrors.IsNotFound(err) {
			failed = errors.Join(failed, fmt.Errorf("reading the Secret %s: %w", name, err))
		}
		problems = append(problems, name+": "+reasonOf(err))
		if ready.Status == metav1.ConditionTrue {
			ready.Status, ready.Reason = metav1.ConditionFalse, reasonOf(err) // of the first Secret that failed
		}
	}
	ready.Message = strings.Join(problems, ", ")
	meta.SetStatusCondition(&site.Status.Conditions, ready)
	return failed
}

// statusOf returns the status of a Secret, or of the error from reading it.
func statusOf(name string, secret *corev1.Secret, err error) webv1.SecretStatus {
	if err != nil {
		return webv1.SecretStatus{Name: name, Reason: reasonOf(err)}
	}
	return webv1.SecretStatus{Name: name, ResourceVersion: secret.ResourceVersion}
}

// reasonOf returns the reason of an error, for a status. The error's text is not in it, because each write of a status
// calls Reconcile again: a text that differs each time, such as a duration, would repeat that forever.
func reasonOf(err error) string {
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	return "ReadFailed"
}

// sitesOf returns the Sites that name a Secret, for each change of the Secret.
func (r *reconciler) sitesOf(ctx context.Context, secret client.Object) []reconcile.Request {
	var sites webv1.SiteList
	err := r.client.List(ctx, &sites, client.InNamespace(secret.GetNamespace()), client.MatchingFields{secretNames: secret.GetName()})
	if err != nil { // the cache has the index, so only if the manager ends
		ctrl.LoggerFrom(ctx).Error(err, "Listing the Sites of a Secret", "secret", client.ObjectKeyFromObject(secret))
	}
	requests := make([]reconcile.Request, len(sites.Items))
	for i := range sites.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&sites.Items[i])
	}
	return requests
}
