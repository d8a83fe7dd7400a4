// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	canaries "github.com/refwatch/refwatch/test/canary"
)

// Issue 13: a Secret has a String method, so that fmt, encoders and loggers printed the
// object of a Change. They print its key and version only.
func TestIssue13_ChangePrintsNoObjectData(t *testing.T) {
	var values canaries.Canaries
	object := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "tls", ResourceVersion: "5", Annotations: map[string]string{"last": values.New()}},
		Data:       map[string][]byte{"password": []byte(values.New())},
	}
	key := types.NamespacedName{Namespace: namespace, Name: "tls"}
	change := objectcache.Change[*corev1.Secret]{Key: key, Object: object}
	for name, value := range map[string]any{
		"change": change, "pointer": &change, "in a slice": []objectcache.Change[*corev1.Secret]{change}, "in a struct": struct{ Change any }{change},
	} {
		values.Check(t, name, canaries.Print(value))
	}
	for want, change := range map[string]objectcache.Change[*corev1.Secret]{
		`default/tls has resource version "5"`: change,
		`default/tls was deleted`:              {Key: key, Err: errors.New("gone"), Deleted: true},
		`default/tls: refused`:                 {Key: key, Err: errors.New("refused")},
		`default/tls: no object`:               {Key: key},
	} {
		if got := change.String(); got != want {
			t.Errorf("String: got %s, want %s", got, want)
		}
	}
}
