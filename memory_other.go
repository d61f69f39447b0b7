//go:build !linux

package rlxc

func machineMemory() int64 { return 0 }
