// SPDX-License-Identifier: Apache-2.0

package apiserver

import "k8s.io/apimachinery/pkg/runtime/schema"

// openAPIPath is the prefix of the paths of OpenAPI documents. Each version of a group has one.
const openAPIPath = "/openapi/v3"

// pathOf returns the prefix of the paths of a version: /api/v1 or /apis/GROUP/VERSION.
func pathOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}

// openAPIIndex returns the list of documents.
func (s *store) openAPIIndex() map[string]any {
	paths := map[string]any{}
	for _, r := range s.resources {
		path := pathOf(r.groupVersion)
		paths[path[1:]] = map[string]string{"serverRelativeURL": openAPIPath + path}
	}
	return map[string]any{"paths": paths}
}

// openAPIDocument returns the facts that kubectl reads before it writes: every kind has the query parameters
// fieldValidation and dryRun. Without it, kubectl create asks for schemas and validates objects itself.
func (s *store) openAPIDocument(gv schema.GroupVersion) map[string]any {
	paths := map[string]any{}
	for _, r := range s.resourcesOf(gv) {
		if r.answer != nil {
			continue
		}
		path := pathOf(gv) + "/" + r.name + "/{name}"
		if r.namespaced {
			path = pathOf(gv) + "/namespaces/{namespace}/" + r.name + "/{name}"
		}
		paths[path] = map[string]any{"patch": map[string]any{
			"operationId": "patch" + r.kind,
			"parameters": []map[string]any{
				{"name": "dryRun", "in": "query", "schema": map[string]string{"type": "string"}},
				{"name": "fieldValidation", "in": "query", "schema": map[string]string{"type": "string"}},
			},
			"responses":                       map[string]any{"200": map[string]string{"description": "OK"}},
			"x-kubernetes-action":             "patch",
			"x-kubernetes-group-version-kind": map[string]string{"group": gv.Group, "version": gv.Version, "kind": r.kind},
		}}
	}
	return map[string]any{
		"openapi": "3.0.0",
		"info":    map[string]string{"title": "Kubernetes", "version": "v1.36.3"},
		"paths":   paths,
	}
}
