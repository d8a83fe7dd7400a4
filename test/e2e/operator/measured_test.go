// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/refwatch/refwatch/test/e2e"
)

const (
	// measuredVariable is the environment variable with the folder that test/operators/measure makes: case.yaml, the
	// programs that it names, and the manifests crds/*.yaml, rbac/*.yaml and objects.yaml.
	measuredVariable = "MEASURED_OPERATOR"

	// quickVariable is the environment variable that makes TestMeasured short, to try a case.yaml: each program runs
	// once, among few Secrets, and its memory says nothing.
	quickVariable = "MEASURED_QUICK"

	foreign           = 5000    // Secrets that the operator does not need, as Helm makes them
	foreignSize       = 8 << 10 // bytes of each
	foreignNamespaces = 50
	settling          = time.Minute      // after the outcome, before the memory is measured
	outcomeTimeout    = 90 * time.Second // of the outcome and of its change
	namedTimeout      = 45 * time.Second // of the outcome with named rights
)

// measured is an operator of another project on a control plane among foreign Secrets.
type measured struct {
	*rig

	measuredCase

	quick    bool
	folder   string
	files    string // the address of a server of the folder's files
	snapshot *e2e.Snapshot
}

// measurement is one run of a program.
type measurement struct {
	outcome, changed  time.Duration // until each was seen
	problem           string        // why one was not
	anon, resident    float64       // MB, without and with files
	peak              float64       // MB
	requests          requestCounts
	named, hasOutcome bool
}

// TestMeasured measures the programs of an operator: each several times in turn with all its rights, and then once with
// rights on named Secrets only.
func TestMeasured(t *testing.T) {
	folder := os.Getenv(measuredVariable)
	if folder == "" {
		t.Skip("test/operators/measure runs this test: it sets " + measuredVariable)
	}
	m := newMeasured(t, folder)
	runs := map[string][]measurement{}
	for round := range rounds {
		if m.quick && round > 0 {
			break
		}
		for _, program := range m.Programs {
			runs[program] = append(runs[program], m.measure(program, false))
		}
	}
	var page strings.Builder
	fmt.Fprintln(&page, "| program | rights | outcome | change | RssAnon | RSS | peak | requests for Secrets |\n|---|---|---|---|---|---|---|---|")
	for _, program := range m.Programs {
		page.WriteString(row(program, medianRun(runs[program])))
	}
	for _, program := range m.Programs {
		page.WriteString(row(program, m.measure(program, true)))
	}
	m.must(os.WriteFile(filepath.Join(folder, "result.md"), []byte(page.String()), 0o644))
}

// newMeasured starts a control plane with the definitions of an operator and the foreign Secrets.
func newMeasured(t *testing.T, folder string) *measured {
	t.Helper()
	read, err := readCase(folder)
	m := &measured{rig: newEmptyRig(t, ""), measuredCase: read, folder: folder, quick: os.Getenv(quickVariable) != ""}
	m.must(err)
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(folder, "files"))))
	t.Cleanup(server.Close)
	m.files = server.Listener.Addr().String()
	m.createNamespace(namespace)
	for i := range foreignNamespaces {
		m.createNamespace(fmt.Sprintf("foreign-%d", i))
	}
	count := foreign
	if m.quick {
		count = foreignNamespaces
	}
	m.createSecrets(count, func(i int) *corev1.Secret {
		release := fmt.Sprintf("release-%d", i)
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: fmt.Sprintf("foreign-%d", i%foreignNamespaces), Name: "sh.helm.release.v1." + release + ".v1",
				Labels: map[string]string{"owner": "helm", "name": release, "status": "deployed", "version": "1"},
			},
			Type: m.ForeignType,
			Data: map[string][]byte{"release": random(foreignSize)},
		}
	})
	definitions, err := filepath.Glob(filepath.Join(folder, "crds", "*.yaml"))
	m.must(err)
	for _, path := range definitions {
		m.apply(path)
	}
	m.awaitDefinitions()
	m.snapshot, err = m.cluster.Snapshot(t.Context())
	m.must(err)
	return m
}

// awaitDefinitions waits until the server serves the kinds of all definitions: after a restart it begins with none.
func (m *measured) awaitDefinitions() {
	m.Helper()
	resource := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	definitions, err := m.dynamic.Resource(resource).List(m.Context(), metav1.ListOptions{})
	m.must(err)
	m.mapper.Reset()
	for _, definition := range definitions.Items {
		group, _, err := unstructured.NestedString(definition.Object, "spec", "group")
		m.must(err)
		kind, _, err := unstructured.NestedString(definition.Object, "spec", "names", "kind")
		m.must(err)
		m.eventually(definition.GetName()+" is served", func(ctx context.Context) error {
			client, err := m.clientOf(schema.GroupVersionKind{Group: group, Kind: kind}, "")
			if err == nil {
				_, err = client.List(ctx, metav1.ListOptions{Limit: 1})
			}
			return err
		})
	}
}

// measure runs a program on the state of the snapshot.
func (m *measured) measure(program string, named bool) (result measurement) {
	m.Helper()
	m.must(m.cluster.Restore(m.Context(), m.snapshot))
	m.awaitDefinitions()
	m.grantMeasured(named)
	objects, err := os.ReadFile(filepath.Join(m.folder, "objects.yaml"))
	m.must(err)
	m.applyText("objects.yaml", bytes.ReplaceAll(objects, []byte("FILES_ADDRESS"), []byte(m.files)))
	m.dir = m.folder
	// Not each has the flag --kubeconfig.
	m.binary, m.env = filepath.Join(m.folder, program), append(m.expand(m.Env), "KUBECONFIG="+m.kubeconfig())
	result.named = named
	began := time.Now()
	p := m.startProcess(m.expand(m.Args)...)
	timeout := outcomeTimeout
	if named {
		timeout = namedTimeout
	}
	if result.outcome, err = m.await(timeout, m.Outcome); err != nil {
		result.problem = err.Error()
		if !named {
			defer m.Fatalf("%s with all its rights does not work", program)
		}
	} else {
		result.hasOutcome = true
		if !m.quick {
			m.settle()
		}
		result.anon = m.anonymous(p.Process.Pid)
		result.resident, result.peak = m.memory(p.Process.Pid)
		m.change(m.Change)
		if result.changed, err = m.await(timeout, m.Change.Outcome); err != nil {
			result.problem = "change: " + err.Error()
		}
	}
	_ = p.Process.Signal(syscall.SIGTERM) // fails if it has ended
	m.wait(p)
	result.requests = m.countRequests(began)
	m.must(os.WriteFile(filepath.Join(m.folder, fmt.Sprintf("%s-named=%t.log", program, named)), p.output.Bytes(), 0o644))
	m.Logf("%s", row(program, result))
	return result
}

// settle lets the operator come to rest. No event says when it has.
func (m *measured) settle() {
	select {
	case <-time.After(settling):
	case <-m.Context().Done():
	}
}

// expand replaces TEMPORARY and FOLDER.
func (m *measured) expand(texts []string) (expanded []string) {
	m.Helper()
	replacer := strings.NewReplacer("TEMPORARY", m.TempDir(), "FOLDER", m.folder)
	for _, text := range texts {
		expanded = append(expanded, replacer.Replace(text))
	}
	return expanded
}

// await returns after how much time the object was as expected.
func (m *measured) await(timeout time.Duration, want expectation) (time.Duration, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(m.Context(), timeout)
	defer cancel()
	var last error
	err := e2e.Poll(ctx, func(context.Context) error { // not with its context, whose end would hide the last error
		last = m.check(m.Context(), want)
		return last
	})
	if err != nil {
		err = last
	}
	return time.Since(began), err
}

// medianRun returns the run with the median of each figure. A problem of any run remains.
func medianRun(runs []measurement) measurement {
	result := runs[len(runs)-1]
	of := func(figure func(measurement) float64) float64 {
		var values []float64
		for _, run := range runs {
			values = append(values, figure(run))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	result.outcome = time.Duration(of(func(run measurement) float64 { return float64(run.outcome) }))
	result.changed = time.Duration(of(func(run measurement) float64 { return float64(run.changed) }))
	result.anon = of(func(run measurement) float64 { return run.anon })
	result.resident = of(func(run measurement) float64 { return run.resident })
	result.peak = of(func(run measurement) float64 { return run.peak })
	for _, run := range runs {
		if run.problem != "" {
			result.problem, result.hasOutcome = run.problem, result.hasOutcome && run.hasOutcome
		}
	}
	return result
}

// row returns a row of the table of results.
func row(program string, run measurement) string {
	rights, outcome, changed := "its own", "none: "+run.problem, "not made"
	if run.named {
		rights = "named"
	}
	if run.hasOutcome {
		outcome, changed = run.outcome.Round(time.Millisecond).String(), run.changed.Round(time.Millisecond).String()
		if run.problem != "" {
			changed = run.problem
		}
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %.1f MB | %.1f MB | %.1f MB | %s |\n",
		program, rights, outcome, changed, run.anon, run.resident, run.peak, run.requests)
}
