// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// build builds the operator.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "operator")
	command := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".")
	command.Dir = "../../../examples/operator"
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("building the operator: %v\n%s", err, out)
	}
	return binary
}

// process is an operator that runs.
type process struct {
	*exec.Cmd

	output bytes.Buffer  // valid once done is closed
	done   chan struct{} // closed when the process has ended
	err    error         // of the process; valid once done is closed
}

// start starts the operator with the rights of its service account, which the flag --kubeconfig has.
func (r *rig) start(args ...string) *process {
	r.Helper()
	return r.startProcess(append(args, "--kubeconfig="+r.kubeconfig())...)
}

// kubeconfig writes a kubeconfig with the rights of the operator's service account, and returns its path.
func (r *rig) kubeconfig() string {
	r.Helper()
	config, err := r.cluster.ServiceAccount(r.Context(), namespace, "operator")
	r.must(err)
	kubeconfig := filepath.Join(r.TempDir(), "kubeconfig")
	r.must(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: config.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "c",
	}, kubeconfig))
	return kubeconfig
}

// startProcess starts the operator.
func (r *rig) startProcess(args ...string) *process {
	r.Helper()
	p := &process{done: make(chan struct{})}
	//nolint:gosec // the program was built by this test
	p.Cmd = exec.CommandContext(context.WithoutCancel(r.Context()), r.binary, args...)
	p.Env, p.Dir = append(os.Environ(), r.env...), r.dir
	p.Stdout, p.Stderr = &p.output, &p.output
	r.must(p.Start())
	go func() {
		defer close(p.done)
		p.err = p.Wait()
	}()
	r.Cleanup(func() {
		_ = p.Process.Kill() // fails if it has ended
		<-p.done
		if r.Failed() {
			r.Logf("the operator printed:\n%s", &p.output)
		}
	})
	return p
}

// stop ends the operator with SIGTERM. It fails the test unless the exit status is 0.
func (r *rig) stop(p *process) {
	r.Helper()
	r.must(p.Process.Signal(syscall.SIGTERM))
	r.wait(p)
	if p.err != nil {
		r.Errorf("operator after SIGTERM: got %v, want exit status 0", p.err)
	}
}

// wait waits until the operator has ended.
func (r *rig) wait(p *process) {
	r.Helper()
	const limit = 5 * timeout // the stock cache ends after two minutes by default
	ctx, cancel := context.WithTimeoutCause(r.Context(), limit, fmt.Errorf("the operator still runs after %v", limit))
	defer cancel()
	select {
	case <-p.done:
	case <-ctx.Done():
		r.Fatal(context.Cause(ctx))
	}
}
