//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package files

import (
	"errors"
	"os"
)

func mapFile(*os.File, int) ([]byte, error) { return nil, errors.ErrUnsupported }

func MapMemory(int) ([]byte, error) { return nil, errors.ErrUnsupported }

// Unmap ends a mapping.
func Unmap([]byte) error { return nil }

func evictFile([]byte) {}

// releasePages leaves the pages where they are.
func releasePages([]byte) {}

func duplicate(*os.File) *os.File { return nil }
