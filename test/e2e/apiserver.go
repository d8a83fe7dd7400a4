// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// auditPolicy logs requests without bodies: when the response ends, and for a watch also when it starts.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
`

// serviceAccountIssuer is the issuer of service account tokens.
const serviceAccountIssuer = "https://refwatch-e2e.invalid"

// writeAPIServerFiles writes the files that kube-apiserver reads at its start.
func writeAPIServerFiles(dir string, authority *authority) error {
	_, serviceAccountKey, err := newKey()
	if err != nil {
		return err
	}
	if err := writeCertificate(dir, authority); err != nil {
		return err
	}
	return writeFiles(dir, map[string][]byte{
		"ca.crt":             authority.bundle,
		"serviceaccount.key": serviceAccountKey,
		"audit.yaml":         []byte(auditPolicy),
	})
}

// writeCertificate writes a new certificate of the server.
func writeCertificate(dir string, authority *authority) error {
	server, err := authority.server()
	if err != nil {
		return err
	}
	return writeFiles(dir, map[string][]byte{"apiserver.crt": server.certificate, "apiserver.key": server.key})
}

func writeFiles(dir string, files map[string][]byte) error {
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return fmt.Errorf("writing a file for kube-apiserver: %w", err)
		}
	}
	return nil
}

// apiServerArgs returns the arguments of kube-apiserver. A comment says why one differs from a production server's.
func apiServerArgs(dir string, port *port, etcdURL string, options Options) []string {
	file := func(name string) string { return filepath.Join(dir, name) }
	args := []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port.number),
		"--permit-port-sharing", // a socket reserves the port, see port
		"--client-ca-file=" + file("ca.crt"),
		"--tls-cert-file=" + file("apiserver.crt"),
		"--tls-private-key-file=" + file("apiserver.key"),
		"--service-account-issuer=" + serviceAccountIssuer,
		"--service-account-key-file=" + file("serviceaccount.key"),
		"--service-account-signing-key-file=" + file("serviceaccount.key"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--disable-admission-plugins=ServiceAccount", // needs a controller
		"--audit-policy-file=" + file("audit.yaml"),
		"--audit-log-path=" + file("audit.log"),
		"--audit-log-maxsize=0", // no rotation: AuditEvents reads one file
		"--service-cluster-ip-range=10.0.0.0/24",
		"--endpoint-reconciler-type=none", // an endpoint must not be on loopback
		// By default a server that gets SIGTERM waits a minute for its own watches.
		"--shutdown-watch-termination-grace-period=1s",
	}
	if options.DisableWatchList {
		args = append(args, "--feature-gates=WatchList=false")
	}
	return append(args, options.APIServerArgs...)
}

// apiServerReady returns an error until the server is ready and the namespace default exists, which the server creates
// a moment later.
func apiServerReady(ctx context.Context, admin *rest.Config) error {
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if _, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return fmt.Errorf("/readyz: %w", err)
	}
	if _, err := client.CoreV1().Namespaces().Get(ctx, corev1.NamespaceDefault, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("namespace %s: %w", corev1.NamespaceDefault, err)
	}
	return nil
}
