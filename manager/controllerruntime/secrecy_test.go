// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/canary"
	"github.com/refwatch/refwatch/test/testmain"
)

// quoted answers each request for Secrets with a body, while it is set.
type quoted struct {
	http.RoundTripper

	body atomic.Pointer[string]
}

func (q *quoted) RoundTrip(request *http.Request) (*http.Response, error) {
	body := q.body.Load()
	if body == nil || !strings.Contains(request.URL.Path, "/secrets") {
		return q.RoundTripper.RoundTrip(request)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(*body)), Request: request,
	}, nil
}

// No log line at verbosity 10, of klog or of controller-runtime's logger, and no error
// holds object data, in each representation, also while the server answers with what
// client-go cannot decode and quotes. The cache itself prints none.
func TestNoObjectDataInLogsAndErrors(t *testing.T) {
	var canaries canary.Canaries
	value := canaries.New()
	object := fmt.Sprintf(`{"metadata":{"name":"one","namespace":"default","resourceVersion":"5","annotations":{"last":%q}},"data":{"value":%q}}`,
		value, base64.StdEncoding.EncodeToString([]byte(value)))
	unstructuredSecret := &unstructured.Unstructured{}
	metadata := &metav1.PartialObjectMetadata{}
	for _, o := range []client.Object{unstructuredSecret, metadata} {
		o.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	}
	for name, into := range map[string]client.Object{"typed": &corev1.Secret{}, "unstructured": unstructuredSecret, "metadata": metadata} {
		for what, body := range map[string]string{
			"no kind": `{"type":"ADDED","object":` + object + "}\n", "a list of a wrong type": `{"kind":"SecretList","apiVersion":"v1","items":` + object + `}`,
			"text": value, "an ERROR event": `{"type":"ERROR","object":` + object + "}\n",
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				out := canary.CaptureLog(t)
				add := func(prefix, args string) { fmt.Fprintln(out, prefix, args) }
				rootLines.Store(&add)
				defer rootLines.Store(nil)
				onServer(t, func(t *testing.T, server *apiserver.Server) {
					quiet := klog.NewContext(t.Context(), klog.Logger{})
					if _, err := server.Client().CoreV1().Secrets(namespace).Create(quiet, secretNamed("one", value), metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
					answers := &quoted{}
					answers.body.Store(&body)
					config := server.Config()
					config.Wrap(func(base http.RoundTripper) http.RoundTripper { answers.RoundTripper = base; return answers })
					made, err := controllerruntime.NewCache(controllerruntime.CacheOptions{})(config, cache.Options{})
					if err != nil {
						t.Fatal(err)
					}
					stop := start(t, made)
					logger := funcr.New(add, funcr.Options{Verbosity: 10})
					get := func(when string, fails bool) {
						ctx, cancel := context.WithTimeout(logf.IntoContext(t.Context(), logger), 10*time.Second)
						defer cancel()
						err := made.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "one"}, into)
						if (err != nil) != fails {
							t.Errorf("%s: Get: got %v, want an error: %v", when, err, fails)
						}
						canaries.Check(t, when+": error of Get", canary.Print(err))
						if !testmain.Race { // printing takes no lock
							canaries.Check(t, when+": printed cache", canary.Print(made))
						}
					}
					get("with a fault", true)
					answers.body.Store(nil)
					time.Sleep(time.Minute)
					get("healed", false)
					answers.body.Store(&body)
					server.CloseStreams(nil)
					time.Sleep(time.Minute)
					get("with a fault again", false)
					stop()
				})
				canaries.Check(t, "log", out.Take())
			})
		}
	}
}
