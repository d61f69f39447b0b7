// Package files reads, maps and replaces files that are not trusted, and quotes in messages what such files say.
package files

import (
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ReadFile reads a whole file that is not trusted: a regular one, since a pipe would wait for a writer and a device may
// never end, and one of at most limit bytes. It fails if the file is another, or with an error of the file system.
func ReadFile(path string, limit int64) ([]byte, error) {
	return readFile(path, limit, os.Stat, func(path string) (fs.File, error) { return os.Open(path) })
}

// ReadFileFS is ReadFile for a file of a file system. It fails as ReadFile does.
func ReadFileFS(fsys fs.FS, name string, limit int64) ([]byte, error) {
	return readFile(name, limit, func(name string) (fs.FileInfo, error) { return fs.Stat(fsys, name) }, fsys.Open)
}

func readFile(name string, limit int64, stat func(string) (fs.FileInfo, error), open func(string) (fs.File, error)) ([]byte, error) {
	info, err := stat(name) // before it is opened, which would wait as well
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder", name)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", name)
	case info.Size() > limit:
		return nil, fmt.Errorf("%s has %d bytes, the limit is %d", name, info.Size(), limit)
	}
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, info.Size())
	n, err := io.ReadFull(f, data)
	if err == io.EOF || err == io.ErrUnexpectedEOF { // it was truncated since: what is left is judged by its contents
		err = nil
	}
	return data[:n], err
}
