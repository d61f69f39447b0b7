//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package tensor

import (
	"errors"
	"os"
)

func mapFile(*os.File, int) ([]byte, error) { return nil, errors.ErrUnsupported }

func mapMemory(int) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmap([]byte) error { return nil }

func evictFile([]byte) {}

// releasePages leaves the pages where they are.
func releasePages([]byte) {}
