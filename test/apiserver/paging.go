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

// listPlan is which version a list reads, and which part of it.
type listPlan struct {
	notOlderThan uint64 // what the client has seen already
	exact        uint64 // zero: the newest
	after        string // storage key of the last object of the page before
	limit        int    // zero: everything
}

// continueToken is what a page hands to the next. The real one looks the same; clients must not look.
type continueToken struct {
	Version         string `json:"v"`
	ResourceVersion int64  `json:"rv"` // -1: go on at the newest state
	Start           string `json:"start"`
}

const tokenVersion = "meta.k8s.io/v1"

// planList follows the table "the resourceVersion parameter" of the Kubernetes API concepts.
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
		// Served from the watch cache, which has no pages.
		plan.limit = 0
	case options.ResourceVersionMatch == metav1.ResourceVersionMatchExact,
		options.ResourceVersionMatch == "" && plan.limit > 0:
		plan.exact = version
	}
	return plan, nil
}

// page cuts the wanted part out of all objects, which are in the order of their keys.
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
	// As in kube-apiserver, what remains is told only if no selector makes it a guess.
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

// expired adds to the error for a forgotten page the token with which a client may go on inconsistently.
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
	data, _ := json.Marshal(token) // two strings and a number: cannot fail
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
