// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"net/http"
	"runtime"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
			Groups:   c.store.groups(),
		})
	case openAPIPath:
		c.respondJSON(c.store.openAPIIndex())
	default:
		c.serveGroup()
	}
}

// serveGroup serves the discovery of one group, and the discovery and the OpenAPI document of one of its versions.
func (c *call) serveGroup() {
	path := strings.TrimSuffix(c.r.URL.Path, "/")
	for _, group := range c.store.groups() {
		if path == "/apis/"+group.Name {
			group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			c.respondJSON(group)
			return
		}
	}
	for _, r := range c.store.resources {
		switch path {
		case pathOf(r.groupVersion):
			c.respondJSON(c.store.resourceList(r.groupVersion))
			return
		case openAPIPath + pathOf(r.groupVersion):
			c.respondJSON(c.store.openAPIDocument(r.groupVersion))
			return
		}
	}
	http.NotFound(c.w, c.r)
}

// respondJSON responds with body, which is not an API object, in JSON.
func (c *call) respondJSON(body any) {
	c.w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(c.w).Encode(body)
}

// groups returns the named API groups. The first version of a group is the preferred one.
func (s *store) groups() []metav1.APIGroup {
	groups := []metav1.APIGroup{}
	for _, r := range s.resources {
		gv := metav1.GroupVersionForDiscovery{GroupVersion: r.groupVersion.String(), Version: r.groupVersion.Version}
		i := slices.IndexFunc(groups, func(g metav1.APIGroup) bool { return g.Name == r.groupVersion.Group })
		switch {
		case r.groupVersion.Group == "":
		case i < 0:
			groups = append(groups, metav1.APIGroup{
				Name: r.groupVersion.Group, Versions: []metav1.GroupVersionForDiscovery{gv}, PreferredVersion: gv,
			})
		case !slices.Contains(groups[i].Versions, gv):
			groups[i].Versions = append(groups[i].Versions, gv)
		}
	}
	return groups
}

// resourcesOf returns the resources of one version.
func (s *store) resourcesOf(gv schema.GroupVersion) []*resource {
	return slices.DeleteFunc(slices.Clone(s.resources), func(r *resource) bool { return r.groupVersion != gv })
}

func (s *store) resourceList(gv schema.GroupVersion) metav1.APIResourceList {
	list := metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: gv.String(),
	}
	for _, r := range s.resourcesOf(gv) {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: r.name, SingularName: r.singular, Kind: r.kind, ShortNames: r.shortNames, Categories: r.categories,
			Namespaced: r.namespaced,
			Verbs:      r.verbs(),
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
