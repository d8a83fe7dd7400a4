// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/refwatch/refwatch/test/network"
)

const (
	// tableVariable is the environment variable with the path of the file that TestTable writes.
	tableVariable = "OPERATOR_TABLE"

	unrelated = 5000     // Secrets that no Site names, in another namespace
	dataSize  = 32 << 10 // bytes of each
	ownSites  = 20       // Sites, each with a Secret of its own
	rounds    = 3        // of each cache; the table has medians
)

// TestTable measures the operator with each cache, and writes the results as Markdown. It runs for minutes, so only
// with OPERATOR_TABLE set, as "make operator-table" does.
func TestTable(t *testing.T) {
	path := os.Getenv(tableVariable)
	if path == "" {
		t.Skip("make operator-table runs this test: it sets " + tableVariable)
	}
	r := newRig(t)
	r.createUnrelated()
	for i := range ownSites {
		r.createSecret(ownName(i), "1")
		r.grant(ownName(i))
	}
	result := r.versions()
	r.createSites()
	result.Refused, result.RefusedSeconds = r.measureRefusal()
	r.deleteSites()
	figures := map[string][]figures{}
	for round := range rounds {
		figures["refwatch"] = append(figures["refwatch"], r.measure("refwatch"))
		if round == 0 { // not earlier, so that refwatch has shown that it does not need them
			r.apply(filepath.Join(manifests, "stock-rbac.yaml"))
			r.awaitAllSecrets()
		}
		figures["stock"] = append(figures["stock"], r.measure("stock"))
	}
	result.Refwatch, result.Stock = median(figures["refwatch"]), median(figures["stock"])
	var page bytes.Buffer
	r.must(template.Must(template.ParseFiles("table.md.tmpl")).Execute(&page, result))
	r.must(os.WriteFile(path, page.Bytes(), 0o644))
}

// result is what the table shows.
type result struct {
	Date, Platform, Go, Kubernetes, ControllerRuntime, ClientGo string
	CPUs, Unrelated, Size, Sites, Rounds                        int
	Refwatch, Stock                                             figures
	RefusedSeconds                                              float64
	Refused                                                     string // the last line of an operator that ended
}

// figures are the results of one run.
type figures struct {
	StartSeconds float64 // from the start of the process until all Sites are reconciled
	Heap         float64 // MB in use after a garbage collection
	RSS, PeakRSS float64 // MB
}

// median returns the median of each figure.
func median(runs []figures) figures {
	of := func(figure func(figures) float64) float64 {
		var values []float64
		for _, run := range runs {
			values = append(values, figure(run))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return figures{
		StartSeconds: of(func(f figures) float64 { return f.StartSeconds }),
		Heap:         of(func(f figures) float64 { return f.Heap }),
		RSS:          of(func(f figures) float64 { return f.RSS }),
		PeakRSS:      of(func(f figures) float64 { return f.PeakRSS }),
	}
}

// versions returns a result without figures.
func (r *rig) versions() result {
	r.Helper()
	server, err := r.admin.Discovery().ServerVersion()
	r.must(err)
	info, err := buildinfo.ReadFile(r.binary)
	r.must(err)
	versions := map[string]string{}
	for _, module := range info.Deps {
		versions[module.Path] = module.Version
	}
	return result{
		Date: time.Now().UTC().Format(time.DateOnly), Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Go: runtime.Version(), Kubernetes: server.GitVersion,
		ControllerRuntime: versions["sigs.k8s.io/controller-runtime"], ClientGo: versions["k8s.io/client-go"],
		Unrelated: unrelated, Size: dataSize >> 10, Sites: ownSites, Rounds: rounds,
	}
}

func ownName(i int) string { return fmt.Sprintf("own-%d", i) }

// createUnrelated creates the Secrets that no Site names.
func (r *rig) createUnrelated() {
	r.Helper()
	const elsewhere = "elsewhere"
	r.createNamespace(elsewhere)
	r.createSecrets(unrelated, func(i int) *corev1.Secret {
		secret := secretOf(fmt.Sprintf("unrelated-%d", i), string(random(dataSize)))
		secret.Namespace = elsewhere
		return secret
	})
}

func random(size int) []byte {
	data := make([]byte, size)
	_, _ = rand.Read(data) // never fails
	return data
}

func (r *rig) createNamespace(name string) {
	r.Helper()
	_, err := r.admin.CoreV1().Namespaces().Create(r.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	r.must(err)
}

// createSecrets creates many Secrets, some at a time.
func (r *rig) createSecrets(count int, secret func(i int) *corev1.Secret) {
	r.Helper()
	const writers = 8
	group, ctx := errgroup.WithContext(r.Context())
	group.SetLimit(writers)
	for i := range count {
		group.Go(func() error {
			secret := secret(i)
			_, err := r.admin.CoreV1().Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{})
			return err
		})
	}
	r.must(group.Wait())
}

func (r *rig) createSites() {
	r.Helper()
	for i := range ownSites {
		_, err := r.dynamic.Resource(sites).Namespace(namespace).Create(r.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": sites.GroupVersion().String(), "kind": "Site",
			"metadata": map[string]any{"name": fmt.Sprintf("site-%d", i)},
			"spec":     map[string]any{"secretNames": []any{ownName(i)}},
		}}, metav1.CreateOptions{})
		r.must(err)
	}
}

// awaitAllSecrets waits until the operator may list all Secrets: the authorizer lags behind a new binding.
func (r *rig) awaitAllSecrets() {
	r.Helper()
	r.eventually("the operator may list all Secrets", func(ctx context.Context) error {
		review, err := r.admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "list", Version: "v1", Resource: "secrets",
			}},
		}, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed {
			err = fmt.Errorf("got %+v, want that it is allowed", review.Status)
		}
		return err
	})
}

// measureRefusal runs the operator with the stock cache, the rights for the named Secrets and default time-outs. It
// returns the error with which the operator has ended, and after how many seconds.
func (r *rig) measureRefusal() (string, float64) {
	r.Helper()
	began := time.Now()
	p := r.start("--cache=stock")
	r.wait(p)
	seconds := time.Since(began).Seconds()
	if p.err == nil {
		r.Fatal("operator with the stock cache, without rights: got exit status 0, want another")
	}
	lines := strings.Split(strings.TrimSpace(p.output.String()), "\n")
	return lines[len(lines)-1], seconds
}

// measure runs the operator with a cache until all Sites are reconciled.
func (r *rig) measure(cache string) figures {
	r.Helper()
	r.createSites()
	metrics, err := network.FreeAddress()
	r.must(err)
	pprof, err := network.FreeAddress()
	r.must(err)
	began := time.Now()
	p := r.start("--cache="+cache, "--metrics-bind-address="+metrics, "--pprof-bind-address="+pprof)
	for i := range ownSites {
		r.eventuallyReady(fmt.Sprintf("site-%d", i), "SecretsRead")
	}
	f := figures{StartSeconds: time.Since(began).Seconds()}
	f.RSS, f.PeakRSS = r.memory(p.Process.Pid)
	r.httpGet(pprof, "/debug/pprof/heap?gc=1") // collects garbage first
	f.Heap = heapOf(r.T, r.httpGet(metrics, "/metrics"))
	r.Logf("%s: %+v", cache, f)
	r.stop(p)
	r.deleteSites()
	return f
}
