// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Limits of what -corpus adds to testdata/fuzz. Each go test runs it.
const (
	maxInputs     = 16
	maxInputBytes = 4 << 10
	maxBytes      = 48 << 10
)

// candidate is an input that the fuzzer has found.
type candidate struct {
	file   string
	bytes  int64
	blocks profile
}

// keep adds to the inputs in testdata/fuzz those that the fuzzer found and that cover more than the ones there. It
// removes none, because a regression's input may cover nothing new. from is the folder with those of the fuzzer, "" for
// that in go's cache. It builds in scratch.
func (t target) keep(out io.Writer, scratch, from string) error {
	tester, err := t.newTester(scratch)
	if err != nil {
		return err
	}
	corpus := filepath.Join(t.folder, corpusOf(t.name))
	committed := filesIn(corpus)
	known, _, err := tester.run(committed)
	if err != nil {
		return err
	}
	known.once()
	if from == "" {
		from, err = tester.cache()
		if err != nil {
			return err
		}
	}
	found := tester.found(from, committed)
	if err != nil {
		return err
	}
	kept := choose(found, known, maxInputs-len(committed), maxBytes-totalSize(committed))
	for _, c := range kept {
		if err := copyInto(corpus, c.file); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%s %s: kept %d of %d inputs beside %d\n", t.folder, t.name, len(kept), len(found), len(committed))
	return nil
}

// cache returns the folder in which go keeps the inputs that the fuzzer has found.
func (t tester) cache() (string, error) {
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOCACHE: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(cache)), "fuzz", t.importPath, t.name), nil
}

// suspicious is what a scanner for secrets, or a reader, could take for one, and a path of a machine.
var suspicious = regexp.MustCompile(`(?i)passw|token|secret\s*[:=]|private|BEGIN |/(root|home|tmp|work|users)/`)

// found returns the inputs in a folder that are not committed, are short enough, not suspicious, and pass, the shortest
// first. One that fails is of an older version of the target, with other arguments: go keeps those of failures in
// testdata/fuzz itself.
func (t tester) found(folder string, committed []string) (found []candidate) {
	for _, file := range filesIn(folder) {
		if slices.ContainsFunc(committed, func(c string) bool { return filepath.Base(c) == filepath.Base(file) }) {
			continue
		}
		c := candidate{file: file, bytes: totalSize([]string{file})}
		text, err := os.ReadFile(file)
		if err != nil || c.bytes > maxInputBytes || suspicious.Match(text) {
			continue
		}
		if c.blocks, err = t.runOne(file); err == nil {
			found = append(found, c)
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.bytes, b.bytes) })
	return found
}

// choose returns the candidates that cover most, one after the other: the next is that which runs the most blocks that
// none before has run, or runs the most blocks a different order of magnitude more often. known changes.
func choose(found []candidate, known profile, inputs int, size int64) (kept []candidate) {
	for len(kept) < inputs {
		best, bestNew, bestMore := -1, 0, 0
		for i, c := range found {
			isNew, more := known.gain(c.blocks)
			if c.bytes <= size && (isNew > bestNew || isNew == bestNew && more > bestMore) {
				best, bestNew, bestMore = i, isNew, more
			}
		}
		if best < 0 {
			break
		}
		for position, b := range found[best].blocks {
			b.count = max(b.count, known[position].count)
			known[position] = b
		}
		kept, size = append(kept, found[best]), size-found[best].bytes
	}
	return kept
}

// once forgets how often a block has run: the seeds have run it in one process, and so more often than one input can.
func (p profile) once() {
	for position, b := range p {
		b.count = min(b.count, 1)
		p[position] = b
	}
}

// gain returns how many blocks only other runs, and how many it runs more often by a power of two.
func (p profile) gain(other profile) (isNew, more int) {
	for position, b := range other {
		switch count := p[position].count; {
		case count == 0 && b.count > 0:
			isNew++
		case bits.Len(uint(b.count)) > bits.Len(uint(count)):
			more++
		}
	}
	return isNew, more
}

func totalSize(files []string) (sum int64) {
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			sum += info.Size()
		}
	}
	return sum
}
