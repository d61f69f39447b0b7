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
