// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/access"
)

// rolesName is the name of the Roles that the page shows.
const rolesName = "refwatch"

// A store says what it needs for an object, and a manager what its owners need.
type (
	permissionsSource interface {
		Permissions() objectcache.Permissions
	}
	accessSource interface{ Access() access.Objects }
)

// needsOf returns what a source needs for objects, and whether it says so.
func needsOf(source Source, keys []types.NamespacedName) (needs access.Objects, ok bool) {
	switch source := source.(type) {
	case accessSource:
		needs = source.Access()
		needs.Keys = keys
	case permissionsSource:
		needs = access.Of(source, keys...)
	default:
		return needs, false
	}
	return needs, true
}

// rolesYAML returns the Roles and ClusterRoles that the objects need, as documents of YAML. A comment
// names each source that does not say what it needs.
func (o Options) rolesYAML(objects []*Object) (string, error) {
	keys := map[string][]types.NamespacedName{}
	for _, object := range objects {
		keys[object.Resource] = append(keys[object.Resource], types.NamespacedName{Namespace: object.Namespace, Name: object.Name})
	}
	text := &strings.Builder{}
	var namespaced, clusterScoped []access.Objects
	for _, resource := range slices.Sorted(maps.Keys(keys)) {
		needs, ok := needsOf(o.Sources[resource], keys[resource])
		switch {
		case !ok:
			fmt.Fprintf(text, "# %s: not known: the source has neither Permissions nor Access\n", resource)
		case needs.ClusterScoped:
			clusterScoped = append(clusterScoped, needs)
		default:
			namespaced = append(namespaced, needs)
		}
	}
	roles, err1 := access.Roles(rolesName, namespaced...)
	clusterRoles, err2 := access.ClusterRoles(rolesName, clusterScoped...)
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	var documents []any
	for i := range roles {
		documents = append(documents, &roles[i])
	}
	for i := range clusterRoles {
		documents = append(documents, &clusterRoles[i])
	}
	for i, document := range documents {
		encoded, err := yaml.Marshal(document)
		if err != nil {
			return "", err
		}
		if i > 0 {
			text.WriteString("---\n")
		}
		text.Write(encoded)
	}
	if len(documents) == 0 {
		text.WriteString("# no objects\n")
	}
	return text.String(), nil
}
