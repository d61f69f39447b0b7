//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package files

import (
	"os"

	"golang.org/x/sys/unix"
)

func mapFile(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

// MapMemory returns zeroed memory.
func MapMemory(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

// Unmap ends a mapping.
func Unmap(data []byte) error { return unix.Munmap(data) }

// evictFile may fail without harm: it is advice.
func evictFile(data []byte) { _ = unix.Madvise(data, unix.MADV_DONTNEED) }

// releasePages is advice as well. Only Linux promises that the pages are gone at once.
func releasePages(pages []byte) { _ = unix.Madvise(pages, unix.MADV_DONTNEED) }

// duplicate returns another descriptor of an open file. It returns nil if half of the descriptors that the process may have are taken: a
// model may have its weights in a thousand files.
func duplicate(f *os.File) *os.File {
	var limit unix.Rlimit
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	d := os.NewFile(uintptr(fd), f.Name())
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil && uint64(fd) > uint64(limit.Cur)/2 {
		_ = d.Close() // nothing was written
		return nil
	}
	return d
}
