//go:build !linux

package engine

func machineMemory() int64 { return 0 }
