package hub

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// noFollow would make opening a link fail; creating links takes privileges here.
const (
	noFollow = 0
	noWait   = 0
)

// tryLock takes the lock that huggingface_hub takes on the same file, its first byte; false if another holds it.
func tryLock(f *os.File) bool {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0,
		&windows.Overlapped{})
	return !errors.Is(err, windows.ERROR_LOCK_VIOLATION)
}
