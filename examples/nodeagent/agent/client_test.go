// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/test/apiserver"
)

// TestNewClient looks at what a client sends, and that it sends it without a limit.
func TestNewClient(t *testing.T) {
	server := apiserver.New(t, apiserver.Options{})
	config := server.Config()
	client, err := NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	if config.QPS != 0 || config.ContentType != "" {
		t.Errorf("configuration: got QPS %v and content type %q, want it unchanged", config.QPS, config.ContentType)
	}
	if _, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	requests := server.Requests()
	if got, want := requests[len(requests)-1].Accept, "application/vnd.kubernetes.protobuf,application/json"; got != want {
		t.Errorf("Accept: got %q, want %q", got, want)
	}
	if limiter := client.CoreV1().RESTClient().GetRateLimiter(); limiter != nil && limiter.QPS() > 0 {
		t.Errorf("rate limit: got %v per second, want none", limiter.QPS())
	}
}

func TestNewClientRefuses(t *testing.T) {
	if _, err := NewClient(&rest.Config{Host: "https://[bad"}); err == nil {
		t.Error("NewClient of a malformed host: got no error, want one")
	}
}
