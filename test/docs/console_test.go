// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const module = "github.com/refwatch/refwatch"

// checkConsole checks the commands of a block, which run in a folder: the lines that begin
// with "$ ". Other lines are their output.
func checkConsole(b block, folder string) (problems []string) {
	commands := 0
	lines := strings.Split(strings.ReplaceAll(strings.Join(b.lines, "\n"), "\\\n", ""), "\n")
	for _, line := range lines {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		commands++
		command, _, _ = strings.Cut(command, " #")
		for part := range strings.FieldsFuncSeq(command, func(r rune) bool { return strings.ContainsRune("|;&", r) }) {
			problem := ""
			if folder, problem = checkCommand(folder, strings.Fields(part)); problem != "" {
				problems = append(problems, fmt.Sprintf("%s: %s", problem, line))
			}
		}
	}
	if commands == 0 {
		problems = append(problems, "a console block without a command: a command begins with \"$ \"")
	}
	return problems
}

var assignment = regexp.MustCompile(`^[A-Z_]+=`)

// checkCommand checks a command that runs in a folder. It returns the folder of the next
// command.
func checkCommand(folder string, words []string) (next, problem string) {
	for len(words) > 0 && assignment.MatchString(words[0]) {
		words = words[1:]
	}
	if len(words) == 0 {
		return folder, ""
	}
	program, args := words[0], words[1:]
	switch program {
	case "cd":
		if folder == "" && args[0] == path.Base(module) {
			return folder, "" // the clone
		}
		folder = path.Join(folder, args[0])
		if !exists(folder) {
			return folder, "no such folder"
		}
	case "make":
		return folder, checkMake(args)
	case "go":
		return folder, checkGoCommand(folder, args)
	case "git", "kubectl", "curl", "mkdir", "openssl", "systemctl", "journalctl", "podman", "docker", "install", "kill", "findmnt", "fuser":
		return folder, checkFiles(folder, args)
	default:
		if !exists(path.Join(folder, program)) {
			return folder, fmt.Sprintf("%s is neither a file of the repository nor a program that console_test.go knows", program)
		}
	}
	return folder, ""
}

// checkFiles checks the files that are given with -f.
func checkFiles(folder string, args []string) string {
	for i, arg := range args {
		if arg == "-f" && i+1 < len(args) && args[i+1] != "-" && !exists(path.Join(folder, args[i+1])) {
			return "no such file: " + args[i+1]
		}
	}
	return ""
}

func checkMake(targets []string) string {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return err.Error()
	}
	for _, target := range targets {
		if !strings.Contains(target, "=") && !strings.Contains("\n"+string(makefile), "\n"+target+":") {
			return fmt.Sprintf("Makefile has no target %q", target)
		}
	}
	return ""
}

// checkGoCommand checks the packages that a go command names, and the flags of a program
// that it runs.
func checkGoCommand(folder string, args []string) string {
	if len(args) == 0 || !slices.Contains([]string{"get", "run", "test", "doc", "build", "mod", "work", "version", "list"}, args[0]) {
		return "console_test.go does not know this go command"
	}
	for i, arg := range args[1:] {
		inModule, ok := strings.CutPrefix(arg, module)
		name := strings.TrimSuffix(strings.TrimSuffix(arg, "..."), "/")
		switch {
		case ok:
			inModule, _, _ = strings.Cut(inModule, "@")
			if !exists("." + inModule) {
				return "no such package: " + arg
			}
		case args[0] == "get" && !strings.HasPrefix(arg, "-"):
			return "another module than this one: " + arg
		case !strings.HasPrefix(arg, "."):
			continue
		case !exists(path.Join(folder, name)):
			return "no such package: " + arg
		case args[0] == "run":
			return checkFlags(path.Join(folder, name), args[i+2:])
		}
	}
	return ""
}

// checkFlags checks that the source of a program has a string for each flag.
func checkFlags(folder string, args []string) string {
	var source strings.Builder
	err := filepath.WalkDir(filepath.Join(root, folder), func(file string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		source.Write(text)
		return err
	})
	switch {
	case err != nil:
		return err.Error()
	case !strings.Contains(source.String(), "package main\n"):
		return folder + " is no program"
	}
	for _, arg := range args {
		flag, _, _ := strings.Cut(arg, "=")
		name := strings.TrimLeft(flag, "-")
		known := []string{"v", "feature-gates", "logging-format"} // added by packages
		if name != flag && !slices.Contains(known, name) && !strings.Contains(source.String(), `"`+name+`"`) {
			return fmt.Sprintf("%s has no flag %s", folder, flag)
		}
	}
	return ""
}
