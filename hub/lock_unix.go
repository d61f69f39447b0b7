//go:build unix

package hub

import (
	"errors"
	"os"
	"syscall"
)

// noFollow makes opening a link fail, and noWait opening a pipe return.
const (
	noFollow = syscall.O_NOFOLLOW
	noWait   = syscall.O_NONBLOCK
)

// tryLock takes the lock that huggingface_hub takes on the same file; false if another holds it. File systems without locks
// grant it: it only spares a second download.
func tryLock(f *os.File) bool {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	return !errors.Is(err, syscall.EWOULDBLOCK)
}
