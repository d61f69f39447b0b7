// Package memory says how much memory a process may take.
package memory

// Limit is the number of bytes that a run may take: what was asked for, or half of what the process may have where nothing was.
func Limit(asked int64) int64 {
	const unknown = 8 << 30 // what to assume of a machine that does not tell
	switch {
	case asked > 0:
		return asked
	case Available() > 0:
		return Available() / 2
	}
	return unknown / 2
}
