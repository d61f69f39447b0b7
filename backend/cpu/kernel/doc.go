// Package kernel holds the inner loops of the CPU backend: pure functions over slices and strides that know no
// graph, no IR and no tensor type.
//
// Every kernel has a plain Go form and, on amd64, forms in assembly for some feature levels. [Select] returns the
// [Set] of the best (or a named) level; a kernel is a method or a function value of it. Kernels that are worth
// splitting over threads are planned first: NewGemm and its kin fix the blocking from the shape alone, Parts says
// into how many independent pieces the work falls, Run does one of them. The pieces and the order of every sum
// follow from the shape, never from the number of threads, so results are equal to the bit however the parts are
// spread.
//
// Nothing here allocates after planning. Scratch memory is passed in by the caller, who learns its size from the plan.
//
// The assembly is written by the generator in ../_gen; `go generate` in this folder runs it.
//
// This package is not part of rlxc's public API and may change without notice.
package kernel

//go:generate go -C ../_gen run . ../kernel
