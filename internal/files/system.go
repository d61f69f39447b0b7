package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"unsafe"
)

// A System is where paths are looked up: in the operating system's files, or in an fs.FS.
//
// Callers join paths with package filepath in both cases. For System{FS: f}, the path "./minilm//config.json" is the file
// "minilm/config.json" of f.
type System struct {
	FS fs.FS // nil for the operating system's files
	// Root is a prefix of paths, which is removed before FS gets them. For Root "m.rlxc", the path "m.rlxc/config.json" is the file
	// "config.json" of FS. A path without the prefix stays as it is. An empty Root removes nothing. Root has no effect if FS is nil.
	Root string
}

// name returns the name that a path has in FS.
func (s System) name(p string) string {
	p = path.Clean(filepath.ToSlash(p))
	if s.Root == "" {
		return p
	}
	root := path.Clean(filepath.ToSlash(s.Root))
	if p == root {
		return "."
	}
	return strings.TrimPrefix(p, root+"/")
}

// Open implements fs.FS: for a System of the operating system with paths as that has them. It fails with an error of the file system.
func (s System) Open(path string) (f fs.File, err error) {
	if s.FS == nil {
		return os.OpenFile(path, os.O_RDONLY|NoWait, 0)
	}
	defer s.guard(&err)
	return s.FS.Open(s.name(path))
}

// NoWait is a flag of os.OpenFile by which opening a pipe does not wait for a writer. The flag has no effect on regular files.
// Programs that check a path before they open it set the flag, because another program may rename a pipe to the path after the check.
const NoWait = syscall.O_NONBLOCK

// Stat describes the file at a path. Links are followed. It fails with an error of the file system.
func (s System) Stat(path string) (info fs.FileInfo, err error) {
	if s.FS == nil {
		return os.Stat(path)
	}
	defer s.guard(&err)
	return fs.Stat(s.FS, s.name(path))
}

// Lstat describes the file at a path, or the link there. It fails with an error of the file system.
func (s System) Lstat(path string) (info fs.FileInfo, err error) {
	if s.FS == nil {
		return os.Lstat(path)
	}
	defer s.guard(&err)
	return fs.Lstat(s.FS, s.name(path))
}

// IsFile reports whether the path is that of a regular file.
func (s System) IsFile(path string) bool {
	info, err := s.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// ReadDir lists a folder, sorted by name. It fails with an error of the file system.
func (s System) ReadDir(path string) (list []fs.DirEntry, err error) {
	if s.FS == nil {
		return os.ReadDir(path)
	}
	defer s.guard(&err)
	return fs.ReadDir(s.FS, s.name(path))
}

// open opens a regular file and describes the open file. open checks the path first, because opening a device may have effects, and checks
// the open file again, because another program may have renamed another file to the path after the first check.
func (s System) open(path string) (fs.File, fs.FileInfo, error) {
	info, err := s.Stat(path)
	if err == nil {
		err = regular(path, info)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := s.Open(path)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = regular(path, info)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// regular returns an error if the file at a path is not a regular one.
func regular(path string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return fmt.Errorf("%s is a folder", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	}
	return nil
}

// ReadFile reads a whole file that is not trusted: a regular file of at most limit bytes. It fails if the file is another, if a program
// writes to the file meanwhile, or with an error of the file system.
func (s System) ReadFile(path string, limit int64) (_ []byte, err error) {
	defer s.guard(&err)
	f, info, err := s.open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, the limit is %d", path, info.Size(), limit)
	}
	data := make([]byte, info.Size())
	if n, err := io.ReadFull(f, data); err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("%s was truncated while it was read: it had %d bytes and has %d: read it again when it is complete", path,
			len(data), n)
	} else if err != nil {
		return nil, err
	}
	if file, ok := f.(*os.File); ok { // the caller's file systems may report the present time as that of the last write
		err = Unchanged(file, path, info)
	}
	return data, err
}

// Map maps a regular file of the operating system, uses the bytes of an embed.FS in place, and reads any other file into memory. It fails
// if the file is not regular, or with an error of the file system.
func (s System) Map(path string) (_ *Mapping, err error) {
	defer s.guard(&err)
	f, info, err := s.open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if file, ok := f.(*os.File); ok {
		return Map(file)
	}
	if data := embedded(f); data != nil && int64(len(data)) == info.Size() {
		return InMemory(data), nil
	}
	if info.Size() < 0 || int64(int(info.Size())) != info.Size() {
		return nil, fmt.Errorf("%s: invalid size of %d bytes", path, info.Size())
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return InMemory(data), nil
}

// embedded returns the bytes of a file of an embed.FS without a copy, and nil for any other file. The bytes are part of the program's
// read-only data: all processes of the program share them, and writing to them faults.
//
// Package embed has no method that returns the bytes, so embedded reads the string f.data of an open file by reflection. Should a later
// Go have another field, Map copies the file, and TestEmbeddedInPlace fails.
func embedded(f fs.File) []byte {
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Pointer || v.Type().String() != "*embed.openFile" || v.Type().Elem().PkgPath() != "embed" {
		return nil
	}
	file := v.Elem().FieldByName("f")
	if !file.IsValid() || file.Kind() != reflect.Pointer {
		return nil
	}
	data := file.Elem().FieldByName("data")
	if !data.IsValid() || data.Kind() != reflect.String {
		return nil
	}
	text := data.String()
	bytes := unsafe.Slice(unsafe.StringData(text), len(text))
	if len(bytes) == 0 || uintptr(unsafe.Pointer(&bytes[0]))%embedAlignment != 0 {
		return nil
	}
	return bytes
}

// embedAlignment is the alignment in bytes that tensors in a file need, at least. Go's linker aligns large embedded files to 32 bytes and
// small ones not at all, which are copied.
const embedAlignment = 16

// guard makes an error of a panic of the caller's file system.
func (s System) guard(err *error) {
	if s.FS == nil {
		return
	}
	if r := recover(); r != nil {
		*err = fmt.Errorf("the file system panics: %v", r)
	}
}
