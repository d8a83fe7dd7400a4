// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// listPlan is the version that a list reads, and the part of it that a page returns.
type listPlan struct {
	notOlderThan uint64 // the newest version that the client has read
	exact        uint64 // zero: the newest version
	cached       bool   // the watch cache responds
	after        string // storage key of the last object of the previous page
	limit        int    // zero: no limit
}

// continueToken is the decoded continue parameter, in kube-apiserver's form. It is opaque to clients.
type continueToken struct {
	Version         string `json:"v"`
	ResourceVersion int64  `json:"rv"` // -1: continue with the newest state
	Start           string `json:"start"`
}

const tokenVersion = "meta.k8s.io/v1"

// planList returns the plan for options. The rules are those of "The resourceVersion parameter" in
// https://kubernetes.io/docs/reference/using-api/api-concepts/.
func planList(options *internalversion.ListOptions) (listPlan, error) {
	version, invalid := parseVersion(options.ResourceVersion)
	if invalid != nil {
		return listPlan{}, apierrors.NewBadRequest("invalid resource version: " + invalid.Error())
	}
	plan := listPlan{notOlderThan: version, limit: int(options.Limit)}
	if options.Continue != "" {
		if version != 0 {
			return listPlan{}, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		token, err := decodeContinue(options.Continue)
		if err != nil {
			return listPlan{}, apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: %v", err))
		}
		plan.after = token.Start
		if token.ResourceVersion > 0 {
			plan.exact = uint64(token.ResourceVersion)
			plan.notOlderThan = plan.exact
		}
		return plan, nil
	}
	switch {
	case options.ResourceVersion == "0":
		// The watch cache serves this list. It has no pages.
		plan.limit = 0
	case options.ResourceVersionMatch == metav1.ResourceVersionMatchExact,
		options.ResourceVersionMatch == "" && plan.limit > 0:
		plan.exact = version
	}
	plan.cached = options.ResourceVersion != "" && plan.exact == 0
	return plan, nil
}

// page returns the part of objects that the plan selects, and the metadata of the list. objects must be sorted by key.
func (p listPlan) page(objects []object, version uint64, sel *selection) ([]object, metav1.ListMeta) {
	list := metav1.ListMeta{ResourceVersion: formatVersion(version)}
	if p.after != "" {
		first, found := slices.BinarySearchFunc(objects, p.after, func(obj object, key string) int {
			return strings.Compare(storageKey(obj), key)
		})
		if found {
			first++
		}
		objects = objects[first:]
	}
	if p.limit <= 0 || len(objects) <= p.limit {
		return objects, list
	}
	// As in kube-apiserver, the count is omitted with a selector.
	if sel.everything() {
		remaining := int64(len(objects) - p.limit)
		list.RemainingItemCount = &remaining
	}
	objects = objects[:p.limit]
	list.Continue = encodeContinue(continueToken{
		Version: tokenVersion, ResourceVersion: int64(version), Start: storageKey(objects[p.limit-1]),
	})
	return objects, list
}

// expired returns err. If the version of a page has expired, it adds the token for an inconsistent continuation.
func (p listPlan) expired(err error) error {
	if p.after == "" || !apierrors.IsResourceExpired(err) {
		return err
	}
	expired := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter, or use the continue token in this response to retrieve " +
		"the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that " +
		"were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.")
	expired.ErrStatus.ListMeta.Continue = encodeContinue(continueToken{
		Version: tokenVersion, ResourceVersion: -1, Start: p.after,
	})
	return expired
}

func encodeContinue(token continueToken) string {
	data, _ := json.Marshal(token) // two strings and a number cannot fail
	return base64.RawURLEncoding.EncodeToString(data)
}

func decodeContinue(encoded string) (continueToken, error) {
	var token continueToken
	data, err := base64.RawURLEncoding.DecodeString(encoded)
	if err == nil {
		err = json.Unmarshal(data, &token)
	}
	switch {
	case err != nil:
		return token, fmt.Errorf("continue key is not valid: %w", err)
	case token.Version != tokenVersion:
		return token, fmt.Errorf("continue key is not valid: server does not recognize this encoded version %v", token.Version)
	case token.ResourceVersion == 0:
		return token, errors.New("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case token.Start == "":
		return token, errors.New("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")
	}
	return token, nil
}
