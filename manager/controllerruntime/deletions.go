// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"bytes"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The answer to a DELETE has no version that a Get could demand. But it has the UID of the object that was deleted, as
// the preconditions of the request may have. A view that held this object before, and does not hold it any more, has
// the event of the deletion, or a later one: a Get then needs no live read.

// largestStatus is how much of the answer to a DELETE is looked at. That of kube-apiserver is a Status of a few hundred
// bytes, or the object, if it has finalizers.
const largestStatus = 16 << 10

// noteDeleted notes the UID of the object that the answer to a DELETE says is deleted.
func (a *attempts) noteDeleted(response *http.Response) {
	start, err := io.ReadAll(io.LimitReader(response.Body, largestStatus))
	var rest io.Reader = response.Body
	if err != nil {
		rest = failing{err}
	}
	response.Body = body{io.MultiReader(bytes.NewReader(start), rest), response.Body}
	if err != nil || len(start) == largestStatus {
		return
	}
	answer, _, err := scheme.Codecs.UniversalDeserializer().Decode(start, nil, nil)
	if status, ok := answer.(*metav1.Status); err == nil && ok && status.Status == metav1.StatusSuccess && status.Details != nil {
		a.deleted = status.Details.UID
	}
}

// body is the body of an answer of which a part was read.
type body struct {
	io.Reader
	io.Closer
}

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// uidsHeld returns the UID of an object in each view of its kind that holds it.
func (c *Cache) uidsHeld(object client.Object) map[viewID]types.UID {
	gvk, ok := c.kindOf(object)
	if !ok {
		return nil
	}
	held := map[viewID]types.UID{}
	for _, v := range c.viewsOf(gvk) {
		key := client.ObjectKeyFromObject(object)
		if v.clusterScoped {
			key.Namespace = ""
		}
		if state, err := v.store.TryGet(key.Namespace, key.Name); err == nil {
			held[v.id] = state.GetUID()
		}
	}
	return held
}

// recordDeletion adds to the demands of a deletion which object was deleted, for the views that held it before. It
// follows record.
func (c *consistentClient) recordDeletion(object client.Object, held map[viewID]types.UID, deleted types.UID) {
	if deleted == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for view, uid := range held {
		id := writtenID{view, client.ObjectKeyFromObject(object)}
		if c.cache.isClusterScoped(view) {
			id.key.Namespace = ""
		}
		if demand, ok := c.written[id]; ok && uid == deleted && demand.write == c.writes {
			demand.deleted = deleted
			c.written[id] = demand
		}
	}
}
