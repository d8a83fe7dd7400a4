// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// newBOM returns the bill of materials of the module in dir. The component of each
// module has the hash of go.sum. A module depends on another if one of its linked
// packages imports one of the other's.
func newBOM(dir, version, timestamp string) (*cdx.BOM, error) {
	packages, err := linkedPackages(dir)
	if err != nil {
		return nil, err
	}
	var subject *cdx.Component
	components := map[string]cdx.Component{} // by module path
	imported := map[string]map[string]bool{} // module path → the module paths that it imports
	for _, pkg := range packages {
		module := pkg.Module
		if _, ok := components[module.Path]; ok {
			continue
		}
		component, err := newComponent(module, version)
		if err != nil {
			return nil, err
		}
		components[module.Path], imported[module.Path] = component, map[string]bool{}
		if module.Main {
			subject = &component
		}
	}
	if subject == nil {
		return nil, fmt.Errorf("no package of the module is linked")
	}
	for _, pkg := range packages {
		for _, path := range pkg.Imports {
			if other := packages[path]; other != nil && other.Module.Path != pkg.Module.Path {
				imported[pkg.Module.Path][other.Module.Path] = true
			}
		}
	}

	bom := cdx.NewBOM()
	tools := []cdx.Component{{Type: cdx.ComponentTypeApplication, Name: "github.com/refwatch/refwatch/test/tools/sbom", Version: version}}
	bom.Metadata = &cdx.Metadata{Timestamp: timestamp, Component: subject, Tools: &cdx.ToolsChoice{Components: &tools}}
	dependencies := []cdx.Dependency{}
	for _, path := range slices.Sorted(maps.Keys(components)) {
		refs := []string{}
		for _, other := range slices.Sorted(maps.Keys(imported[path])) {
			refs = append(refs, components[other].BOMRef)
		}
		dependencies = append(dependencies, cdx.Dependency{Ref: components[path].BOMRef, Dependencies: &refs})
	}
	bom.Dependencies = &dependencies
	delete(components, subject.Name)
	sorted := slices.SortedFunc(maps.Values(components), func(a, b cdx.Component) int { return cmp.Compare(a.Name, b.Name) })
	bom.Components = &sorted
	return bom, nil
}

// newComponent describes a module. The modules of this repository, which a folder
// replaces, have the version of the repository.
func newComponent(module *goModule, version string) (cdx.Component, error) {
	own := module.Main || module.Replace != nil && module.Replace.Version == ""
	component := cdx.Component{Type: cdx.ComponentTypeLibrary, Scope: cdx.ScopeRequired, Name: module.Path, Version: version}
	if own {
		component.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	} else {
		if module.Replace != nil {
			return component, fmt.Errorf("%s is replaced by %s: users of the module would link another one", module.Path, module.Replace.Path)
		}
		component.Version = module.Version
		// The sum is "h1:" and a SHA-256, which golang.org/x/mod/sumdb/dirhash defines.
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(module.Sum, "h1:"))
		if err != nil || len(sum) != 32 {
			return component, fmt.Errorf("%s %s: go.sum has no SHA-256 for it: %q", module.Path, module.Version, module.Sum)
		}
		component.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	}
	component.PackageURL = "pkg:golang/" + module.Path + "@" + url.QueryEscape(component.Version) + "?type=module"
	component.BOMRef = component.PackageURL
	return component, nil
}
