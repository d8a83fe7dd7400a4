// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The lifetimes and the issuer of tokens, as in kube-apiserver. The issuer is the default audience.
const (
	minTokenSeconds, defaultTokenSeconds, maxTokenSeconds = 10 * 60, 60 * 60, 1 << 32

	tokenIssuer = "https://kubernetes.default.svc"
)

// createToken responds to a TokenRequest with a token of the service account, which is bound to a pod if the request
// names one. The token has the claims of a real one, but is signed with random bytes: no server accepts it.
func (c *call) createToken() error {
	info, err := negotiateInput(c.r, mediaTypes)
	if err != nil {
		return err
	}
	body, err := c.readBody()
	if err != nil {
		return err
	}
	gvk := authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")
	decoded, got, err := info.Serializer.Decode(body, &gvk, nil)
	if err != nil {
		return decodeError(err, got, gvk.Kind)
	}
	request, ok := decoded.(*authenticationv1.TokenRequest)
	if !ok {
		return apierrors.NewBadRequest("a TokenRequest is required")
	}
	account, _ := c.store.get(c.table, c.key())
	if account == nil {
		return apierrors.NewNotFound(c.groupResource(), c.request.Name)
	}
	if err := c.checkTokenRequest(request); err != nil {
		return err
	}
	now := metav1.Now().Rfc3339Copy()
	request.SetGroupVersionKind(gvk)
	request.Name, request.Namespace, request.CreationTimestamp = account.GetName(), account.GetNamespace(), now
	request.Status = authenticationv1.TokenRequestStatus{
		Token:               newToken(request, account.GetUID(), now.Time),
		ExpirationTimestamp: metav1.NewTime(now.Add(time.Duration(*request.Spec.ExpirationSeconds) * time.Second)),
	}
	return c.respond(http.StatusCreated, request)
}

// checkTokenRequest sets defaults, and checks the lifetime and the pod that the token is bound to.
func (c *call) checkTokenRequest(request *authenticationv1.TokenRequest) error {
	spec := &request.Spec
	if len(spec.Audiences) == 0 {
		spec.Audiences = []string{tokenIssuer}
	}
	if spec.ExpirationSeconds == nil {
		spec.ExpirationSeconds = new(int64(defaultTokenSeconds))
	}
	var problem string
	switch seconds := *spec.ExpirationSeconds; {
	case seconds < minTokenSeconds:
		problem = "may not specify a duration less than 10 minutes"
	case seconds > maxTokenSeconds:
		problem = "may not specify a duration larger than 2^32 seconds"
	}
	if problem != "" {
		path := field.NewPath("spec", "expirationSeconds")
		return apierrors.NewInvalid(authenticationv1.SchemeGroupVersion.WithKind("TokenRequest").GroupKind(), "",
			field.ErrorList{field.Invalid(path, *spec.ExpirationSeconds, problem)})
	}
	ref := spec.BoundObjectRef
	if ref == nil {
		return nil
	}
	if ref.Kind != "Pod" || ref.APIVersion != "v1" {
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to object of kind %q: this server binds to pods only", c.request.Name, ref.Kind))
	}
	found, _ := c.store.get(c.store.tableOf(pods), types.NamespacedName{Namespace: c.request.Namespace, Name: ref.Name})
	if found == nil {
		return apierrors.NewNotFound(pods.groupResource(), ref.Name)
	}
	if ref.UID != "" && ref.UID != found.GetUID() {
		return apierrors.NewConflict(pods.groupResource(), ref.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record: the object might have been deleted and then recreated", ref.UID))
	}
	ref.UID = found.GetUID()
	// There is no admission plugin that sets the name.
	if account := cmp.Or(found.(*corev1.Pod).Spec.ServiceAccountName, "default"); account != c.request.Name {
		return apierrors.NewBadRequest(fmt.Sprintf(
			"cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", c.request.Name))
	}
	return nil
}

// newToken returns a token in the form of a JWT.
func newToken(request *authenticationv1.TokenRequest, account types.UID, now time.Time) string {
	kubernetes := map[string]any{
		"namespace":      request.Namespace,
		"serviceaccount": map[string]any{"name": request.Name, "uid": account},
	}
	if ref := request.Spec.BoundObjectRef; ref != nil {
		kubernetes["pod"] = map[string]any{"name": ref.Name, "uid": ref.UID}
	}
	claims := map[string]any{
		"iss": tokenIssuer, "aud": slices.Clone(request.Spec.Audiences), "jti": randomToken(),
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Unix() + *request.Spec.ExpirationSeconds,
		"sub":           "system:serviceaccount:" + request.Namespace + ":" + request.Name,
		"kubernetes.io": kubernetes,
	}
	part := func(value any) string {
		data, _ := json.Marshal(value) // maps of strings and numbers cannot fail
		return base64.RawURLEncoding.EncodeToString(data)
	}
	return part(map[string]string{"alg": "RS256", "typ": "JWT"}) + "." + part(claims) + "." +
		base64.RawURLEncoding.EncodeToString([]byte(randomToken()))
}
