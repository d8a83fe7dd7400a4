// SPDX-License-Identifier: Apache-2.0

package apiserver

// openAPIPath is the path of the only OpenAPI document.
const openAPIPath = "/openapi/v3/api/v1"

// openAPIIndex returns the list of documents.
func openAPIIndex() map[string]any {
	return map[string]any{"paths": map[string]any{
		"api/v1": map[string]string{"serverRelativeURL": openAPIPath},
	}}
}

// openAPIDocument returns the facts that kubectl reads before it writes: every kind has the query parameters
// fieldValidation and dryRun. Without it, kubectl create asks for schemas and validates objects itself.
func openAPIDocument() map[string]any {
	paths := map[string]any{}
	for _, r := range allResources {
		path := "/api/v1/" + r.name + "/{name}"
		if r.namespaced {
			path = "/api/v1/namespaces/{namespace}/" + r.name + "/{name}"
		}
		paths[path] = map[string]any{"patch": map[string]any{
			"operationId": "patch" + r.kind,
			"parameters": []map[string]any{
				{"name": "dryRun", "in": "query", "schema": map[string]string{"type": "string"}},
				{"name": "fieldValidation", "in": "query", "schema": map[string]string{"type": "string"}},
			},
			"responses":                       map[string]any{"200": map[string]string{"description": "OK"}},
			"x-kubernetes-action":             "patch",
			"x-kubernetes-group-version-kind": map[string]string{"group": "", "version": "v1", "kind": r.kind},
		}}
	}
	return map[string]any{
		"openapi": "3.0.0",
		"info":    map[string]string{"title": "Kubernetes", "version": "v1.36.3"},
		"paths":   paths,
	}
}
