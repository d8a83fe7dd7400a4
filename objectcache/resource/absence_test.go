// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// client-go puts the name of the request into the error for a proxy's 404. That is no absence, also if the name is kept
// when the error is cleaned of the answer.
func TestProxysNotFoundIsNotAbsence(t *testing.T) {
	secrets := Secrets(nil)
	for proxy, absent := range map[bool]bool{true: false, false: true} {
		err := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", corev1.Resource("secrets"), "tls", "page not found", 0, proxy)
		if got := secrets.isAbsence(err, "tls"); got != absent {
			t.Errorf("from a proxy: %v: got absence %v, want %v", proxy, got, absent)
		}
	}
}
