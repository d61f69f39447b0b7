package tensor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ReplaceFile puts a new file in the place of an old one, whole or not at all, so that a model may be saved over the one that it
// was read from, whose mapping keeps the old contents. What is there and no regular file, such as a pipe, is written to.
func ReplaceFile(path string, write func(io.Writer) error) error {
	if err := replaceFile(path, write); err != nil {
		return fmt.Errorf("%s cannot be written: %w", path, cause(err, filepath.Base(path)))
	}
	return nil
}

func replaceFile(path string, write func(io.Writer) error) (err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return overwrite(path, info, write)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // it has no other name unless it is complete
	if err = write(f); err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func overwrite(path string, info fs.FileInfo, write func(io.Writer) error) error {
	if info.IsDir() {
		return syscall.EISDIR
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// cause is what the system reports of a file, without the name under which it was made, which the caller has not heard of.
func cause(err error, file string) error {
	var of *fs.PathError
	var with *os.LinkError
	switch {
	case errors.As(err, &of) && strings.HasPrefix(filepath.Base(of.Path), file):
		return of.Err
	case errors.As(err, &with):
		return with.Err
	}
	return err
}
