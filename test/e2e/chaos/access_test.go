// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/e2e"
	"github.com/refwatch/refwatch/test/soak"
)

// account is the service account of the managers.
const account = "agent"

// binding binds the managers' account to its Role.
var binding = &rbacv1.RoleBinding{
	ObjectMeta: metav1.ObjectMeta{Name: account},
	Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: account}},
	RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
}

// grant allows the managers to list and watch each object by its name.
func (p *controlPlane) grant(ctx context.Context) error {
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: account}}
	for resource, names := range options.Names() {
		rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: names, Verbs: []string{"list", "watch"}}
		role.Rules = append(role.Rules, rule)
	}
	_, err := p.admin.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{})
	_, bindErr := p.admin.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{})
	return errors.Join(err, bindErr)
}

// issueToken creates the managers' account, if it does not exist, and writes a token into the managers' file.
func (p *controlPlane) issueToken(ctx context.Context) error {
	config, err := p.cluster.ServiceAccount(ctx, metav1.NamespaceDefault, account)
	if err != nil {
		return err
	}
	return os.WriteFile(p.token, []byte(config.BearerToken), 0o600)
}

// revokeToken deletes the managers' account, cuts all connections when the servers have noticed that, and later writes
// a token of a new account into the file. client-go reads the file once a minute.
func (p *controlPlane) revokeToken(ctx context.Context, load *soak.Load) error {
	if err := p.admin.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Delete(ctx, account, metav1.DeleteOptions{}); err != nil {
		return err
	}
	hold(ctx, 12*time.Second) // the servers keep the result of an authentication for ten
	load.Cut()
	hold(ctx, down)
	return p.issueToken(ctx)
}

// revokeRole deletes the RoleBinding, cuts all connections, so that no stream can open, and creates it again.
func (p *controlPlane) revokeRole(ctx context.Context, load *soak.Load) error {
	bindings := p.admin.RbacV1().RoleBindings(namespace)
	if err := bindings.Delete(ctx, account, metav1.DeleteOptions{}); err != nil {
		return err
	}
	hold(ctx, time.Second)
	load.Cut()
	hold(ctx, paused)
	_, err := bindings.Create(ctx, binding, metav1.CreateOptions{})
	return err
}

// rotateCertificate gives the servers another certificate, and cuts all connections.
func (p *controlPlane) rotateCertificate(ctx context.Context, load *soak.Load) error {
	if err := p.cluster.RotateCertificate(); err != nil {
		return err
	}
	hold(ctx, down) // the servers read the files again
	load.Cut()
	hold(ctx, time.Second)
	return nil
}

// bindLate registers pods with the manager of a node, before the API server has them. The Node authorizer refuses
// their Secrets until then.
func (p *controlPlane) bindLate(ctx context.Context, load *soak.Load) error {
	const pods = 10
	config := p.cluster.ThroughProxy(p.cluster.Node("node-1"))
	client, err := manager.ClientFor(config)
	if err != nil {
		return err
	}
	secrets, err := manager.NewSecrets(client, objectcache.WatchOptions{})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(klog.NewContext(ctx, klog.Logger{})) // a line for each refusal
	var group errgroup.Group
	group.Go(func() error { return secrets.Run(running) })
	var late errgroup.Group
	for i := range pods {
		late.Go(func() error { return p.bindPodLate(ctx, secrets, fmt.Sprint("late-", i)) })
	}
	err = late.Wait()
	load.Count("pods of a node created late", pods)
	stop()
	closeIdle(client)
	return errors.Join(err, group.Wait())
}

// bindPodLate creates a Secret, registers a pod with it, and creates the pod later. From then on the Secret must be
// there soon. The pod and the Secret are deleted.
func (p *controlPlane) bindPodLate(ctx context.Context, secrets *manager.Manager[*corev1.Secret], name string) error {
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}
	server := p.admin.CoreV1()
	if _, err := server.Secrets(meta.Namespace).Create(ctx, &corev1.Secret{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		NodeName:   "node-1",
		Containers: []corev1.Container{{Name: "main", Image: "registry.example/shop:1"}},
		Volumes: []corev1.Volume{{Name: "secret", VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: name},
		}}},
	}}
	secrets.RegisterPod(pod)
	hold(ctx, down)
	switch _, err := secrets.Get(ctx, meta.Namespace, name); {
	case err == nil:
		return fmt.Errorf("%s, before its pod was created: got no error, want Forbidden", name)
	case !apierrors.IsForbidden(err):
		return fmt.Errorf("%s, before its pod was created: %w, want Forbidden", name, err)
	}
	if _, err := server.Pods(meta.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	fresh, cancel := context.WithTimeout(ctx, freshWithin)
	defer cancel()
	if err := e2e.Poll(fresh, func(ctx context.Context) error {
		_, err := secrets.Get(ctx, meta.Namespace, name)
		return err
	}); err != nil {
		return fmt.Errorf("%s, after its pod was created: %w", name, err)
	}
	secrets.UnregisterPod(pod)
	none := int64(0)
	return errors.Join(server.Pods(meta.Namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &none}),
		server.Secrets(meta.Namespace).Delete(ctx, name, metav1.DeleteOptions{}))
}

// closeIdle closes the connections of a client.
func closeIdle(client kubernetes.Interface) {
	utilnet.CloseIdleConnectionsFor(client.CoreV1().RESTClient().(*rest.RESTClient).Client.Transport)
}
