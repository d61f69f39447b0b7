//go:build race

package cpu_test

const raced = true
