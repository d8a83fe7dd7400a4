// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/spf13/pflag"

	"github.com/refwatch/refwatch/examples/nodeagent/config"
	"github.com/refwatch/refwatch/test/apiserver"
)

// manifests decodes the objects of a file in deploy. Unknown and repeated fields are errors.
func manifests(t *testing.T, file string) []runtime.Object {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("deploy", file))
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(data)))
	var objects []runtime.Object
	for buffer := make([]byte, len(data)+1); ; {
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := decoder.Decode(buffer[:n], nil, nil)
		if err != nil {
			t.Fatalf("%s, document %d: %v", file, len(objects), err)
		}
		objects = append(objects, object)
	}
}

// find returns the only object of a type.
func find[T runtime.Object](t *testing.T, objects []runtime.Object) (found T) {
	t.Helper()
	count := 0
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			found = typed
			count++
		}
	}
	if count != 1 {
		t.Fatalf("got %d objects of type %T, want one", count, found)
	}
	return found
}

// parse returns the options of a command line with a configuration file.
func parse(t *testing.T, args []string, file string) *options {
	t.Helper()
	set := pflag.NewFlagSet("nodeagent", pflag.ContinueOnError)
	o := newOptions(config.Default())
	for _, flags := range o.flags.FlagSets {
		set.AddFlagSet(flags)
	}
	if err := set.Parse(args); err != nil {
		t.Fatalf("nodeagent %q: %v", args, err)
	}
	given := map[string]string{}
	set.Visit(func(f *pflag.Flag) { given[f.Name] = f.Value.String() })
	if given["config"] != "/etc/nodeagent/config.yaml" {
		t.Errorf("--config: got %q, want /etc/nodeagent/config.yaml", given["config"])
	}
	given["config"] = file
	complete, err := complete(given)
	if err != nil {
		t.Fatalf("nodeagent %q: %v", args, err)
	}
	return complete
}

// TestUnit: the flags of the systemd unit exist, and its configuration is valid.
func TestUnit(t *testing.T) {
	unit, err := os.ReadFile("deploy/nodeagent.service")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(unit), "\nExecStart=")
	line, _, _ = strings.Cut(line, "\n")
	args := strings.Fields(strings.ReplaceAll(line, "%H", "worker-7"))
	c := parse(t, args[1:], "deploy/config.yaml").config
	if c.NodeName != "worker-7" || c.Kubeconfig != "/etc/kubernetes/kubelet.conf" || !c.Tmpfs.Enabled {
		t.Errorf("configuration: got %+v, want the node, kubelet's kubeconfig and tmpfs", c)
	}
	if dir := filepath.Base(c.RootDir); !strings.Contains(string(unit), "\nStateDirectory="+dir+"\n") || c.RootDir != "/var/lib/"+dir {
		t.Errorf("rootDir: got %q, want the StateDirectory of the unit", c.RootDir)
	}
}

// TestUnitHasNoMountNamespace: the host would not see the mounts of a unit with one of its own. See systemd.exec(5).
func TestUnitHasNoMountNamespace(t *testing.T) {
	unit, err := os.ReadFile("deploy/nodeagent.service")
	if err != nil {
		t.Fatal(err)
	}
	option := regexp.MustCompile(`(?m)^(Protect\w+|Private\w+|Bind\w*Paths|(ReadWrite|ReadOnly|Inaccessible|Exec|NoExec)Paths|` +
		`TemporaryFileSystem|Root(Directory|Image)|MountFlags|MountAPIVFS|MountImages|ExtensionImages|DynamicUser)=`)
	if got := option.FindAllString(string(unit), -1); len(got) > 0 {
		t.Errorf("options with a mount namespace: got %q, want none", got)
	}
}

// TestContainerfilePinsGo: the image is built with the toolchain of CI.
func TestContainerfilePinsGo(t *testing.T) {
	version, err1 := os.ReadFile("../../.go-version")
	file, err2 := os.ReadFile("deploy/Containerfile")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if want := "\nFROM docker.io/library/golang:" + strings.TrimSpace(string(version)) + " AS build\n"; !strings.Contains(string(file), want) {
		t.Errorf("Containerfile: got no line %q, want the version of .go-version", want)
	}
}

// TestDaemonSet: arguments, configuration, probes and mounts of the DaemonSet fit each other.
func TestDaemonSet(t *testing.T) {
	objects := manifests(t, "daemonset.yaml")
	namespace := find[*corev1.Namespace](t, objects).Name
	configMap, set := find[*corev1.ConfigMap](t, objects), find[*appsv1.DaemonSet](t, objects)
	pod := set.Spec.Template.Spec
	container := pod.Containers[0]
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(configMap.Data["config.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	args := slices.Clone(container.Args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "$("+container.Env[0].Name+")", "worker-7")
	}
	c := parse(t, args, file).config
	if c.NodeName != "worker-7" || c.Kubeconfig != "" || !c.Tmpfs.Enabled {
		t.Errorf("configuration: got %+v, want the node, the service account and tmpfs", c)
	}
	for path, probe := range map[string]*corev1.Probe{"/healthz": container.LivenessProbe, "/readyz": container.ReadinessProbe} {
		get := probe.HTTPGet
		if address := net.JoinHostPort(get.Host, get.Port.String()); get.Path != path || address != c.BindAddress || !pod.HostNetwork {
			t.Errorf("probe %s: got %s%s, want %s%s in the network of the host", path, address, get.Path, c.BindAddress, path)
		}
	}
	root, host := container.VolumeMounts[0], pod.Volumes[0]
	if root.Name != host.Name || root.MountPath != c.RootDir || host.HostPath.Path != c.RootDir ||
		*root.MountPropagation != corev1.MountPropagationBidirectional || !*container.SecurityContext.Privileged {
		t.Errorf("root folder: got mount %+v of %+v, want %s, propagated to the host", root, host, c.RootDir)
	}
	if !*container.SecurityContext.ReadOnlyRootFilesystem {
		t.Error("root file system of the container: got writable, want read-only")
	}
	if account := find[*corev1.ServiceAccount](t, objects); account.Name != pod.ServiceAccountName || account.Namespace != namespace {
		t.Errorf("service account: got %s/%s, want that of the pod", account.Namespace, account.Name)
	}
	for _, object := range slices.Concat(manifests(t, "rbac.yaml"), manifests(t, "role.yaml")) {
		for _, subject := range subjects(object) {
			if subject.Name != pod.ServiceAccountName || subject.Namespace != namespace || set.Namespace != namespace {
				t.Errorf("subject: got %+v, want the service account of the DaemonSet", subject)
			}
		}
	}
}

func subjects(object runtime.Object) []rbacv1.Subject {
	switch binding := object.(type) {
	case *rbacv1.ClusterRoleBinding:
		return binding.Subjects
	case *rbacv1.RoleBinding:
		return binding.Subjects
	}
	return nil
}

// right is one right of a role: a verb on a resource, with a name or for all.
type right struct{ namespace, resource, name, verb string }

// rights returns all rights of the roles in deploy, each with false.
func rights(t *testing.T) map[right]bool {
	t.Helper()
	all := map[right]bool{}
	add := func(namespace string, rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						all[right{namespace, resource, name, verb}] = false
					}
				}
			}
		}
	}
	role := find[*rbacv1.Role](t, manifests(t, "role.yaml"))
	add("", find[*rbacv1.ClusterRole](t, manifests(t, "rbac.yaml")).Rules)
	add(role.Namespace, role.Rules)
	return all
}

// TestRules: the agent serves pods with the rights of the roles, it asks for nothing else, and it uses each right: list
// on a server without WatchList, and get where lists and watches of Secrets and ConfigMaps fail.
func TestRules(t *testing.T) {
	var mu sync.Mutex
	used := rights(t)
	for _, server := range []string{"WatchList", "lists", "GETs"} {
		t.Run(server, func(t *testing.T) {
			c := newRulesCluster(t, apiserver.Options{DisableWatchList: server == "lists"})
			if server == "GETs" {
				c.server.Intercept(func(_ context.Context, r apiserver.Request) *metav1.Status {
					if r.Resource != "secrets" && r.Resource != "configmaps" || r.Verb != "list" && r.Verb != "watch" {
						return nil
					}
					return &apierrors.NewInternalError(errors.New("lists and watches fail")).ErrStatus
				})
			}
			var refused []apiserver.Request
			c.server.Authorize(func(request apiserver.Request) bool {
				mu.Lock()
				defer mu.Unlock()
				resource := strings.TrimSuffix(request.Resource+"/"+request.Subresource, "/")
				for _, r := range []right{
					{request.Namespace, resource, request.Name, request.Verb}, {"", resource, "", request.Verb},
				} {
					if _, ok := used[r]; ok {
						used[r] = true
						return true
					}
				}
				refused = append(refused, request)
				return false
			})
			runUntilFile(t, c.file, c.args("--tmpfs=false")...)
			runUntilFile(t, c.token, c.args("--tmpfs=false")...)
			mu.Lock()
			defer mu.Unlock()
			if len(refused) > 0 {
				t.Errorf("refused requests: got %+v, want none", refused)
			}
		})
	}
	for r, ok := range used {
		if !ok {
			t.Errorf("right %+v: got unused, want only rights that the agent uses", r)
		}
	}
}

// newRulesCluster returns a cluster with one pod in the namespace of role.yaml, which references all that it names.
func newRulesCluster(t *testing.T, options apiserver.Options) cluster {
	t.Helper()
	server := apiserver.New(t, options)
	c, client := clusterOf(t, server), server.Client().CoreV1()
	const namespace = "shop"
	create := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	create(client.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	create(client.ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta("default")}, metav1.CreateOptions{}))
	sources := []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}
	for _, name := range []string{"tls", "db"} {
		create(client.Secrets(namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: meta(name), StringData: map[string]string{name: canary}}, metav1.CreateOptions{}))
		sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}}})
	}
	for _, name := range []string{"app", "kube-root-ca.crt"} {
		create(client.ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta(name), Data: map[string]string{name: "x"}}, metav1.CreateOptions{}))
		sources = append(sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}}})
	}
	pod, err := client.Pods(namespace).Create(t.Context(), &corev1.Pod{ObjectMeta: meta("web-1"), Spec: corev1.PodSpec{
		NodeName: "n", Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1"}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.file = filepath.Join(c.root, "pods", string(pod.UID), "volumes", "v", "app")
	c.token = filepath.Join(c.root, "pods", string(pod.UID), "volumes", "v", "token")
	return c
}
