// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

// How many allocated bytes there are to a sample of the heap. fineHeap is for small heaps: usualHeap, Go's default,
// would find 30 samples in the memory of 5,000 objects. It costs much CPU time.
const fineHeap, usualHeap = 1 << 10, 512 << 10

// startProfile begins to sample the heap and the CPU, if profiles are wanted. The function that it returns writes the
// profiles. Figures that were measured meanwhile are not comparable with others.
func (w *worker) startProfile(heapRate int) (write func() error, err error) {
	if w.Profiles == "" {
		return func() error { return nil }, nil
	}
	name := filepath.Join(w.Profiles, fmt.Sprintf("%s-%s-%d", w.Scenario, w.job.Contender, w.Set.Count))
	cpu, err := os.Create(name + ".cpu")
	if err != nil {
		return nil, err
	}
	runtime.MemProfileRate = heapRate
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		heap, err := os.Create(name + ".heap")
		if err != nil {
			return err
		}
		runtime.GC() // the profile is that of the last collection
		return errors.Join(pprof.WriteHeapProfile(heap), heap.Close(), cpu.Close())
	}, nil
}
