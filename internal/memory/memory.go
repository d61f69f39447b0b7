// Package memory says how much memory a process may take, and keeps accounts of it.
package memory

import (
	"fmt"
	"sync/atomic"
)

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

// Error is a demand that an account does not cover.
type Error struct{ Need, Limit int64 }

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("it needs %d bytes, the memory limit is %d", e.Need, e.Limit)
}

// An Account bounds what its users take together. They ask before they allocate, and give back what they have let go of. The nil
// Account has no bound.
type Account struct {
	limit int64
	used  atomic.Int64
}

// NewAccount makes an account of limit bytes.
func NewAccount(limit int64) *Account { return &Account{limit: limit} }

// Take asks for n more bytes. On an error nothing is taken.
func (a *Account) Take(n int64) error {
	if a == nil {
		return nil
	}
	for {
		used := a.used.Load()
		if n < 0 || n > a.limit-used {
			return &Error{Need: used + n, Limit: a.limit}
		}
		if a.used.CompareAndSwap(used, used+n) {
			return nil
		}
	}
}

// Give returns n bytes.
func (a *Account) Give(n int64) {
	if a != nil {
		a.used.Add(-n)
	}
}

// Used is the number of bytes taken.
func (a *Account) Used() int64 {
	if a == nil {
		return 0
	}
	return a.used.Load()
}

// Left is the number of bytes that can still be taken.
func (a *Account) Left() int64 {
	if a == nil {
		return 1<<63 - 1
	}
	return max(0, a.limit-a.used.Load())
}
