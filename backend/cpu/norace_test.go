//go:build !race

package cpu_test

// raced reports whether the race detector watches.
const raced = false
