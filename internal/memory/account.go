// Package memory says how much memory a process may take.
package memory

import (
	"fmt"
	"runtime/debug"
)

// An Account counts the memory of a run against a limit. Take is called before memory is allocated. One goroutine at a time may use an
// account. A nil account has no limit.
type Account struct {
	Limit int64 // bytes that the run may take
	Used  int64 // bytes that the run has taken and not given back
	// loose is the number of bytes given back since the last garbage collection. They are garbage, which the process still holds.
	loose int64
}

// An Error is a request for more than an account has left.
type Error struct{ Need, Limit int64 }

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("%d bytes in all are above the memory limit of %d", e.Need, e.Limit)
}

// Fits returns the error that Take would return.
func (a *Account) Fits(bytes int64) error {
	if a != nil && (bytes < 0 || bytes > a.Limit-a.Used) {
		return &Error{Sum(min(a.Used, a.Limit), bytes), a.Limit}
	}
	return nil
}

// Take asks for memory that is about to be allocated. It fails with an Error for more than the account has left, and for a negative
// size, which is one whose computation overflowed.
func (a *Account) Take(bytes int64) error {
	if err := a.Fits(bytes); a == nil || err != nil {
		return err
	}
	a.Used += bytes
	if a.Used > a.Limit-a.loose && a.loose > a.Limit/8 {
		debug.FreeOSMemory() // the limit has no room for garbage of that size, nor for the pages that it leaves
		a.loose = 0
	}
	return nil
}

// Give returns memory that is garbage now.
func (a *Account) Give(bytes int64) {
	if a != nil {
		a.loose = Sum(a.loose, a.pass(bytes))
	}
}

// Pass returns memory that is not garbage: another account has it, or it was taken twice.
func (a *Account) Pass(bytes int64) {
	if a != nil {
		a.pass(bytes)
	}
}

// pass lowers Used by at most what was taken, and returns by how much. A caller that returns more than it took has counted wrongly; the
// account then errs on the side of refusing.
func (a *Account) pass(bytes int64) int64 {
	bytes = max(0, min(bytes, a.Used))
	a.Used -= bytes
	return bytes
}

// Limit is the number of bytes that a run may take: what was asked for, or half of what the process may have where nothing was.
func Limit(asked int64) int64 {
	const unknown = 8 << 30 // what to assume of a machine that does not report it
	switch {
	case asked > 0:
		return asked
	case Available() > 0:
		return Available() / 2
	}
	return unknown / 2
}
