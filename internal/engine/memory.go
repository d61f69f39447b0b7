package engine

// memoryLimit is the limit that CompileOptions.MemoryLimit sets: half of the machine's memory where it says nothing.
func memoryLimit(asked int64) int64 {
	const unknown = 8 << 30 // what to assume of a machine that does not tell
	switch {
	case asked > 0:
		return asked
	case machineMemory() > 0:
		return machineMemory() / 2
	}
	return unknown / 2
}
