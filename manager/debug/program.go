// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"time"
)

// Program is the process that a report is of.
type Program struct {
	// Title is that of [Options].
	Title string `json:"title,omitempty"`
	// Name is the name of the program's file, and Package the path of its package main, as far as the build has it.
	Name    string `json:"name"`
	Package string `json:"package,omitempty"`
	// Host is the name of the host, which is that of the pod in a container of Kubernetes.
	Host string `json:"host,omitempty"`
	// Version is that of refwatch.
	Version string `json:"version"`
	// Started is when the process was started.
	Started time.Time `json:"started"`
}

const module = "github.com/refwatch/refwatch"

// started is when the process has begun, but for the time that its runtime took.
var started = time.Now()

func newProgram(title string) Program {
	program := Program{Title: title, Name: filepath.Base(os.Args[0]), Version: "(devel)", Started: started}
	if host, err := os.Hostname(); err == nil {
		program.Host = host
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return program
	}
	if info.Path != "command-line-arguments" {
		program.Package = info.Path
	}
	for _, linked := range append(info.Deps, &info.Main) {
		if linked.Path != module {
			continue
		}
		if linked.Replace != nil {
			linked = linked.Replace
		}
		if linked.Version != "" {
			program.Version = linked.Version
		}
	}
	return program
}
