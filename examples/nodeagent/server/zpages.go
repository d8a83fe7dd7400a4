// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

// The pages /statusz and /flagz have the text of those of Kubernetes' components. Their code is in k8s.io/apiserver,
// which is too large a dependency for two pages.
const header = `
%s %s
Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.

`

// statusz returns the page of a program that began then and serves these paths.
func statusz(name string, began time.Time, paths []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, header, name, "statusz")
	version, revision, goVersion := build()
	up := time.Since(began).Truncate(time.Second)
	fmt.Fprintf(&b, "Started: %s\n", began.Format(time.UnixDate))
	fmt.Fprintf(&b, "Up: %d hr %02d min %02d sec\n", int(up.Hours()), int(up.Minutes())%60, int(up.Seconds())%60)
	fmt.Fprintf(&b, "Go version: %s\nBinary version: %s\nRevision: %s\n", goVersion, version, revision)
	fmt.Fprintf(&b, "Paths: %s\n", strings.Join(paths, " "))
	return b.String()
}

// build returns the version of the program's module, the revision of its source and the version of Go. They are
// "unknown" in a test and in a program that was built outside of a module.
func build() (version, revision, goVersion string) {
	version, revision, goVersion = "unknown", "unknown", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, revision, goVersion
	}
	if info.Main.Version != "" {
		version = info.Main.Version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			revision = setting.Value
		}
	}
	return version, revision, info.GoVersion
}

// flagz returns the page of all flags with their values. As in Kubernetes, the value of a flag with the annotation
// "classified" is not shown.
func flagz(name string, sets cliflag.NamedFlagSets) string {
	values := map[string]string{}
	for _, set := range sets.FlagSets {
		set.VisitAll(func(f *pflag.Flag) {
			values[f.Name] = f.Value.String()
			if len(f.Annotations["classified"]) > 0 {
				values[f.Name] = "CLASSIFIED"
			}
		})
	}
	var b strings.Builder
	fmt.Fprintf(&b, header, name, "flagz")
	for _, flag := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&b, "%s=%s\n", flag, values[flag])
	}
	return b.String()
}
