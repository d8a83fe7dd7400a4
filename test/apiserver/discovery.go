// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"net/http"
	"runtime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
)

// serveNonResource serves health checks and discovery. Discovery is not aggregated: clients that ask for the aggregated
// form fall back to this one.
func (c *call) serveNonResource() {
	switch c.r.URL.Path {
	case "/healthz", "/livez", "/readyz":
		_, _ = c.w.Write([]byte("ok"))
	case "/version", "/version/":
		c.respondJSON(version.Info{
			Major: "1", Minor: "36", GitVersion: "v1.36.3", GitTreeState: "clean",
			GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
		})
	case "/api", "/api/":
		c.respondJSON(metav1.APIVersions{
			TypeMeta: metav1.TypeMeta{Kind: "APIVersions"},
			Versions: []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{
				{ClientCIDR: "0.0.0.0/0", ServerAddress: c.listener.Addr().String()},
			},
		})
	case "/apis", "/apis/":
		c.respondJSON(metav1.APIGroupList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
			Groups:   []metav1.APIGroup{},
		})
	case "/api/v1", "/api/v1/":
		c.respondJSON(resourceList())
	case "/openapi/v3":
		c.respondJSON(openAPIIndex())
	case openAPIPath:
		c.respondJSON(openAPIDocument())
	default:
		http.NotFound(c.w, c.r)
	}
}

// respondJSON responds with body, which is not an API object, in JSON.
func (c *call) respondJSON(body any) {
	c.w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(c.w).Encode(body)
}

func resourceList() metav1.APIResourceList {
	list := metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: "v1",
	}
	for _, r := range allResources {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: r.name, SingularName: r.singular, Kind: r.kind, ShortNames: r.shortNames, Categories: r.categories,
			Namespaced: r.namespaced,
			Verbs:      metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		})
		for _, sub := range r.subresources {
			resource := metav1.APIResource{
				Name: r.name + "/" + sub, Kind: r.kind, Namespaced: r.namespaced, Verbs: metav1.Verbs{"get", "patch", "update"},
			}
			switch sub {
			case "binding":
				resource.Kind, resource.Verbs = "Binding", metav1.Verbs{"create"}
			case "token":
				resource.Kind, resource.Verbs = "TokenRequest", metav1.Verbs{"create"}
				resource.Group, resource.Version = "authentication.k8s.io", "v1"
			}
			list.APIResources = append(list.APIResources, resource)
		}
	}
	return list
}
