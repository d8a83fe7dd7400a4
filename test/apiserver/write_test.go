// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

func TestCreateCompletesMetadata(t *testing.T) {
	f := newFixture(t, Options{})
	secret := newSecret("a")
	secret.Namespace = ""
	secret.UID, secret.Generation = "mine", 7
	secret.CreationTimestamp = metav1.Unix(1, 0)
	secret.DeletionTimestamp, secret.DeletionGracePeriodSeconds = new(metav1.Unix(1, 0)), new(int64(5))
	secret.StringData = map[string]string{"key": "wins", "other": "x"}
	created, err := f.client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{})
	check(t, err)
	if created.Namespace != "default" || created.ResourceVersion != f.ResourceVersion() || len(created.UID) != 36 {
		t.Errorf("got namespace %q, version %q, uid %q, want default, %s and a UUID",
			created.Namespace, created.ResourceVersion, created.UID, f.ResourceVersion())
	}
	if created.CreationTimestamp.Unix() == 1 || created.DeletionTimestamp != nil || created.DeletionGracePeriodSeconds != nil ||
		created.Generation != 0 {
		t.Errorf("got %+v, want the fields that a client cannot set ignored", created.ObjectMeta)
	}
	if string(created.Data["key"]) != "wins" || string(created.Data["other"]) != "x" || created.StringData != nil || created.Type != corev1.SecretTypeOpaque {
		t.Errorf("got type %q, stringData %v, want Opaque, and stringData merged into data", created.Type, created.StringData)
	}
	got, err := f.client.CoreV1().Secrets("default").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || !got.CreationTimestamp.Equal(&created.CreationTimestamp) || got.UID != created.UID {
		t.Errorf("got %v, %v, want the response to the create", got, err)
	}
}

func TestGenerateName(t *testing.T) {
	f := newFixture(t, Options{})
	secret := newSecret("")
	secret.GenerateName = strings.Repeat("long-", 20)
	seen := map[string]bool{}
	for range 5 {
		name := f.createSecret(secret).Name
		if seen[name] || len(name) != 63 || !strings.HasPrefix(name, secret.GenerateName[:58]) {
			t.Errorf("got name %q, want a new one of 63 characters with the base as prefix", name)
		}
		seen[name] = true
	}
}

// TestCreateRefuses checks the code, the reason and a part of the message of every error of a create.
func TestCreateRefuses(t *testing.T) {
	f := newFixture(t, Options{})
	f.createSecret(newSecret("taken"))
	const path = "/api/v1/namespaces/default/secrets"
	for name, test := range map[string]struct {
		path, body string
		headers    []string
		code       int
		reason     metav1.StatusReason
		message    string
	}{
		"exists":             {path, `{"metadata":{"name":"taken"}}`, nil, 409, "AlreadyExists", `secrets "taken" already exists`},
		"no name":            {path, `{}`, nil, 422, "Invalid", "metadata.name: Required value: name or generateName is required"},
		"bad name":           {path, `{"metadata":{"name":"A_b"}}`, nil, 422, "Invalid", "RFC 1123 subdomain"},
		"bad label":          {path, `{"metadata":{"name":"a","labels":{"a":"?"}}}`, nil, 422, "Invalid", "metadata.labels"},
		"bad data key":       {path, `{"metadata":{"name":"a"},"data":{"a/b":""}}`, nil, 422, "Invalid", "data[a/b]"},
		"type without key":   {path, `{"metadata":{"name":"a"},"type":"kubernetes.io/tls"}`, nil, 422, "Invalid", "data[tls.crt]"},
		"another namespace":  {path, `{"metadata":{"name":"a","namespace":"x"}}`, nil, 400, "BadRequest", "does not match the namespace sent on the request"},
		"missing namespace":  {"/api/v1/namespaces/x/secrets", `{"metadata":{"name":"a"}}`, nil, 404, "NotFound", `namespaces "x" not found`},
		"no namespace":       {"/api/v1/secrets", `{"metadata":{"name":"a"}}`, nil, 405, "MethodNotAllowed", "create"},
		"with a name":        {path + "/a", `{}`, nil, 405, "MethodNotAllowed", "create"},
		"another kind":       {path, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`, nil, 400, "BadRequest", "cannot be handled as a Secret"},
		"another version":    {path, `{"kind":"Secret","apiVersion":"v2","metadata":{"name":"a"}}`, nil, 400, "BadRequest", `Secret in version "v2" cannot be handled as a Secret`},
		"unknown kind":       {path, `{"kind":"Foo","apiVersion":"v1"}`, nil, 400, "BadRequest", "cannot be handled as a Secret"},
		"not JSON":           {path, `{`, nil, 400, "BadRequest", "the object provided is unrecognized"},
		"wrong type":         {path, `{"metadata":{"name":"a"},"data":{"a":7}}`, nil, 400, "BadRequest", "cannot be handled"},
		"with a version":     {path, `{"metadata":{"name":"a","resourceVersion":"1"}}`, nil, 500, "", "resourceVersion should not be set on objects to be created"},
		"strict":             {path + "?fieldValidation=Strict", `{"metadata":{"name":"a"},"dota":{}}`, nil, 400, "BadRequest", `unknown field "dota"`},
		"unknown validation": {path + "?fieldValidation=Some", `{"metadata":{"name":"a"}}`, nil, 422, "Invalid", "fieldValidation"},
		"bad dry run":        {path + "?dryRun=Some", `{"metadata":{"name":"a"}}`, nil, 422, "Invalid", "dryRun"},
		"media type":         {path, `a=b`, []string{"Content-Type", "text/plain"}, 415, "UnsupportedMediaType", "application/vnd.kubernetes.protobuf"},
		"too long":           {path, strings.Repeat(" ", maxBody+1), nil, 413, "RequestEntityTooLarge", "limit is 3145728"},
		"bad namespace name": {"/api/v1/namespaces", `{"metadata":{"name":"a.b"}}`, nil, 422, "Invalid", "must not contain dots"},
		"pod, no containers": {"/api/v1/namespaces/default/pods", `{"metadata":{"name":"a"}}`, nil, 422, "Invalid", "spec.containers: Required value"},
	} {
		t.Run(name, func(t *testing.T) {
			version := f.ResourceVersion()
			got := f.do(http.MethodPost, test.path, test.body, test.headers...)
			status := got.status(t)
			if got.code != test.code || int(status.Code) != test.code || status.Reason != test.reason || status.Status != "Failure" {
				t.Errorf("got %d %+v, want %d %s", got.code, status, test.code, test.reason)
			}
			if !strings.Contains(status.Message, test.message) {
				t.Errorf("got message %q, want %q in it", status.Message, test.message)
			}
			if test.code == 422 && (status.Details == nil || len(status.Details.Causes) == 0) {
				t.Errorf("got details %+v, want causes", status.Details)
			}
			if now := f.ResourceVersion(); now != version {
				t.Errorf("got version %s changed to %s, want nothing written", version, now)
			}
		})
	}
}

// TestFieldValidation checks that unknown fields lead to a warning or an error, or are ignored.
func TestFieldValidation(t *testing.T) {
	f := newFixture(t, Options{})
	for name, test := range map[string]struct {
		query string
		code  int
		warns bool
	}{
		"default": {"", 201, true},
		"warn":    {"?fieldValidation=Warn", 201, true},
		"ignore":  {"?fieldValidation=Ignore", 201, false},
		"strict":  {"?fieldValidation=Strict", 400, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.do(http.MethodPost, "/api/v1/namespaces/default/configmaps"+test.query, `{"metadata":{"name":"`+name+`"},"dota":{}}`)
			if got.code != test.code || (got.header.Get("Warning") != "") != test.warns {
				t.Errorf("got %d with warning %q, want %d, warning %t", got.code, got.header.Get("Warning"), test.code, test.warns)
			}
		})
	}
}

func TestUpdate(t *testing.T) {
	f := newFixture(t, Options{})
	first := f.createSecret(newSecret("a"))
	second := f.updateSecret(first, "2")
	for name, test := range map[string]struct {
		change  func(*corev1.Secret)
		want    func(error) bool // nil: accepted
		message string
	}{
		"unconditional": {func(s *corev1.Secret) { s.ResourceVersion = "" }, nil, ""},
		"stale": {
			func(s *corev1.Secret) { s.ResourceVersion = first.ResourceVersion }, apierrors.IsConflict,
			"the object has been modified; please apply your changes to the latest version and try again",
		},
		"another uid":  {func(s *corev1.Secret) { s.UID = "x" }, apierrors.IsConflict, "Precondition failed: UID in precondition: x"},
		"no uid":       {func(s *corev1.Secret) { s.UID, s.ResourceVersion = "", "" }, nil, ""},
		"absent":       {func(s *corev1.Secret) { s.Name = "b" }, apierrors.IsNotFound, `secrets "b" not found`},
		"type changed": {func(s *corev1.Secret) { s.Type, s.ResourceVersion = "x", "" }, apierrors.IsInvalid, "field is immutable"},
	} {
		t.Run(name, func(t *testing.T) {
			current, err := f.client.CoreV1().Secrets("default").Get(t.Context(), second.Name, metav1.GetOptions{})
			check(t, err)
			current.Data = map[string][]byte{"case": []byte(name)}
			test.change(current)
			updated, err := f.client.CoreV1().Secrets("default").Update(t.Context(), current, metav1.UpdateOptions{})
			switch {
			case test.want != nil:
				if !test.want(err) || !strings.Contains(err.Error(), test.message) {
					t.Errorf("got error %v, want %q", err, test.message)
				}
			case err != nil:
				t.Error(err)
			case updated.UID != first.UID || !updated.CreationTimestamp.Equal(&first.CreationTimestamp) || updated.ResourceVersion != f.ResourceVersion():
				t.Errorf("got %+v, want the UID and creation time kept, and the current version", updated.ObjectMeta)
			}
		})
	}
	got := f.do(http.MethodPut, "/api/v1/namespaces/default/secrets/a", `{"metadata":{"name":"b"}}`)
	if status := got.status(t); got.code != 400 || !strings.Contains(status.Message, "does not match the name on the URL (a)") {
		t.Errorf("got %d %s, want 400 with the name", got.code, status.Message)
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	f := newFixture(t, Options{})
	secrets, dryRun := f.client.CoreV1().Secrets("default"), []string{metav1.DryRunAll}
	created := f.createSecret(newSecret("a"))
	version := f.ResourceVersion()
	changed := created.DeepCopy()
	changed.Data["key"] = []byte("changed")
	if got, err := secrets.Update(t.Context(), changed, metav1.UpdateOptions{DryRun: dryRun}); err != nil || string(got.Data["key"]) != "changed" {
		t.Errorf("update: got %v, %v, want the updated object", got, err)
	}
	if got, err := secrets.Create(t.Context(), newSecret("b"), metav1.CreateOptions{DryRun: dryRun}); err != nil || got.UID == "" {
		t.Errorf("create: got %v, %v, want the new object", got, err)
	}
	if _, err := secrets.Create(t.Context(), newSecret("a"), metav1.CreateOptions{DryRun: dryRun}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("create: got %v, want AlreadyExists", err)
	}
	elsewhere := newSecret("a")
	elsewhere.Namespace = "missing"
	if _, err := f.client.CoreV1().Secrets("missing").Create(t.Context(), elsewhere, metav1.CreateOptions{DryRun: dryRun}); !apierrors.IsNotFound(err) {
		t.Errorf("create in a missing namespace: got %v, want NotFound", err)
	}
	if err := secrets.Delete(t.Context(), "a", metav1.DeleteOptions{DryRun: dryRun}); err != nil {
		t.Errorf("delete: got %v", err)
	}
	if _, err := secrets.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":null}`), metav1.PatchOptions{DryRun: dryRun}); err != nil {
		t.Errorf("patch: got %v", err)
	}
	if now := f.ResourceVersion(); now != version {
		t.Errorf("got version %s changed to %s, want nothing written", version, now)
	}
}

func TestImmutable(t *testing.T) {
	f := newFixture(t, Options{})
	secret := newSecret("a")
	secret.Immutable = new(true)
	secret = f.createSecret(secret)
	configMap, err := f.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Immutable: new(true),
		Data: map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": {1}},
	}, metav1.CreateOptions{})
	check(t, err)
	for name, test := range map[string]struct {
		secret    func(*corev1.Secret)
		configMap func(*corev1.ConfigMap)
		field     string // empty: accepted
	}{
		"secret data":            {secret: func(s *corev1.Secret) { s.Data["key"] = []byte("x") }, field: "data"},
		"secret stringData":      {secret: func(s *corev1.Secret) { s.StringData = map[string]string{"key": "x"} }, field: "data"},
		"secret made mutable":    {secret: func(s *corev1.Secret) { s.Immutable = new(false) }, field: "immutable"},
		"secret unset":           {secret: func(s *corev1.Secret) { s.Immutable = nil }, field: "immutable"},
		"secret label":           {secret: func(s *corev1.Secret) { s.Labels = map[string]string{"a": "b"} }},
		"config map data":        {configMap: func(c *corev1.ConfigMap) { c.Data["a"] = "2" }, field: "data"},
		"config map binary data": {configMap: func(c *corev1.ConfigMap) { c.BinaryData = nil }, field: "binaryData"},
		"config map mutable":     {configMap: func(c *corev1.ConfigMap) { c.Immutable = nil }, field: "immutable"},
		"config map annotation":  {configMap: func(c *corev1.ConfigMap) { c.Annotations = map[string]string{"a": "b"} }},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			if test.secret != nil {
				changed := secret.DeepCopy()
				changed.ResourceVersion = ""
				test.secret(changed)
				_, err = f.client.CoreV1().Secrets("default").Update(t.Context(), changed, metav1.UpdateOptions{})
			} else {
				changed := configMap.DeepCopy()
				changed.ResourceVersion = ""
				test.configMap(changed)
				_, err = f.client.CoreV1().ConfigMaps("default").Update(t.Context(), changed, metav1.UpdateOptions{})
			}
			if test.field == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var status apierrors.APIStatus
			if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details.Causes[0].Field != test.field {
				t.Errorf("got %v, want Invalid with a cause for %s", err, test.field)
			}
			if !strings.Contains(err.Error(), "field is immutable when `immutable` is set") {
				t.Errorf("got %v, want the message of an immutable field", err)
			}
		})
	}
}

// TestConcurrentWriters checks that no update is lost, whether writers patch or retry conflicts.
func TestConcurrentWriters(t *testing.T) {
	f := newFixture(t, Options{})
	configMaps := f.client.CoreV1().ConfigMaps("default")
	if _, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var group errgroup.Group
	for i := range 8 {
		group.Go(func() error {
			for j := range 5 {
				key := string(rune('a'+i)) + string(rune('a'+j))
				patch := []byte(`{"data":{"patch-` + key + `":"x"}}`)
				if _, err := configMaps.Patch(t.Context(), "a", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
					return err
				}
				err := retry.OnError(retry.DefaultBackoff, func(err error) bool { return apierrors.IsConflict(err) }, func() error {
					current, err := configMaps.Get(t.Context(), "a", metav1.GetOptions{})
					if err != nil {
						return err
					}
					current.Data["update-"+key] = "x"
					_, err = configMaps.Update(t.Context(), current, metav1.UpdateOptions{})
					return err
				})
				if err != nil && !apierrors.IsConflict(err) {
					return err
				}
				if apierrors.IsConflict(err) { // no attempt left: patch instead
					if _, err := configMaps.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"update-`+key+`":"x"}}`), metav1.PatchOptions{}); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	check(t, group.Wait())
	got, err := configMaps.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || len(got.Data) != 80 {
		t.Errorf("got %d keys, %v, want 80", len(got.Data), err)
	}
}
