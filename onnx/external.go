package onnx

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// An opener opens the files of external data. A model file is untrusted: what it names may be beneath its own folder only.
type opener interface {
	open(location string) (*files.Mapping, error)
}

// loadExternal points raw_data of every tensor with external data at the mapped file, after which it is a tensor like any
// other.
func (m *Model) loadExternal(beside opener) error {
	files := map[string]*files.Mapping{}
	for tp := range tensors(m.Proto) {
		if tp.DataLocation != onnxpb.TensorProto_EXTERNAL {
			continue
		}
		where, err := parseExternal(tp.ExternalData)
		if err != nil {
			return invalid(fmt.Errorf("tensor %s: %w", Quote(tp.Name), err))
		}
		file := files[where.location]
		if file == nil {
			if file, err = openExternal(beside, where.location); err != nil {
				return invalid(fmt.Errorf("tensor %s: %w", Quote(tp.Name), err))
			}
			files[where.location] = file
			m.files = append(m.files, file)
		}
		if tp.RawData, err = where.slice(tp, file.Bytes()); err != nil {
			return invalid(fmt.Errorf("tensor %s in external file %s: %w", Quote(tp.Name), Quote(where.location), err))
		}
		tp.DataLocation, tp.ExternalData = onnxpb.TensorProto_DEFAULT, nil
	}
	return nil
}

// external is where a tensor's bytes are.
type external struct {
	location       string
	offset, length uint64 // length 0: it is not given, which published models spell out
}

func parseExternal(entries []*onnxpb.StringStringEntryProto) (e external, err error) {
	for _, entry := range entries { // the last of equal keys counts
		switch entry.Key {
		case "location":
			e.location = entry.Value
		case "offset":
			e.offset, err = strconv.ParseUint(entry.Value, 10, 63)
		case "length":
			e.length, err = strconv.ParseUint(entry.Value, 10, 63)
		case "checksum":
		default:
			return e, fmt.Errorf("external data: key %s is not location, offset, length or checksum", Quote(entry.Key))
		}
		if err != nil {
			return e, fmt.Errorf("external data: %s %s is not a number of bytes", entry.Key, Quote(entry.Value))
		}
	}
	if e.location == "" {
		return e, errors.New("external data names no file")
	}
	return e, nil
}

// slice cuts the tensor's bytes out of its file.
func (e external) slice(tp *onnxpb.TensorProto, file []byte) ([]byte, error) {
	d, err := DType(tp.DataType)
	if err != nil {
		return nil, err
	}
	if d == tensor.String {
		return nil, errors.New("strings cannot be external")
	}
	shape, n, err := shapeOf(d, tp.Dims)
	if err != nil {
		return nil, err
	}
	need, size := uint64(d.Bytes(n)), uint64(len(file))
	if e.length != 0 && e.length != need {
		return nil, fmt.Errorf("%s%v needs %d bytes, its length is given as %d", d.ONNX(), shape, need, e.length)
	}
	if e.offset > size || need > size-e.offset {
		return nil, fmt.Errorf("%d bytes at offset %d are requested, but the file has %d", need, e.offset, size)
	}
	return file[e.offset : e.offset+need : e.offset+need], nil
}

func openExternal(beside opener, location string) (*files.Mapping, error) {
	switch {
	case strings.ContainsRune(location, 0):
		return nil, fmt.Errorf("external file %s: the name has a NUL byte", Quote(location))
	case !filepath.IsLocal(filepath.FromSlash(location)):
		return nil, fmt.Errorf("external file %s: only files beneath the model's folder are read", Quote(location))
	}
	m, err := beside.open(location)
	if err != nil {
		if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
			err = pe.Err // its path is the one already named
		}
		return nil, fmt.Errorf("external file %s: %w", Quote(location), err)
	}
	return m, nil
}

var errNotRegular = errors.New("not a regular file")

// folder opens files of the operating system. os.Root refuses files outside the folder, also those behind links. The files of a snapshot in
// huggingface_hub's cache are links to a folder of contents, and may be in that folder as well.
type folder struct{ path string }

func (f *folder) open(location string) (*files.Mapping, error) {
	beneath, name := f.path, location
	if dir, blob, ok := hubBlob(filepath.Join(f.path, filepath.FromSlash(location))); ok {
		beneath, name = dir, blob
	}
	root, err := os.OpenRoot(beneath)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name) // before opening: opening a pipe would wait for a writer
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	file, err := root.OpenFile(name, os.O_RDONLY|files.NoWait, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return files.Map(file)
}

// A snapshot in a cache of huggingface_hub holds links to the contents of the same repository, CACHE/models--ORG--NAME/blobs/ETAG,
// which may in turn be links into the store that the repositories of the cache share, CACHE/blobs/ab/ab12….
var (
	hubSnapshot = regexp.MustCompile(`^(.*/)(models--[^/]+)/snapshots/[0-9a-f]{40}/`)
	hubContent  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)
	hubShared   = regexp.MustCompile(`^blobs/[0-9a-f]{2}/[0-9a-f]{64}$`)
)

// hubBlob reports whether a path is one of a snapshot whose link stays within what belongs to it: dir is the folder of contents
// and name the file in it.
func hubBlob(path string) (dir, name string, ok bool) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", "", false
	}
	m := hubSnapshot.FindStringSubmatch(filepath.ToSlash(path))
	if m == nil {
		return "", "", false
	}
	real, err := filepath.EvalSymlinks(path)
	cache, err2 := filepath.EvalSymlinks(filepath.FromSlash(m[1])) // which may be reached by a link itself
	if err != nil || err2 != nil {
		return "", "", false
	}
	if dir = filepath.Join(cache, m[2], "blobs"); filepath.Dir(real) == dir && hubContent.MatchString(filepath.Base(real)) {
		return dir, filepath.Base(real), true
	}
	name, err = filepath.Rel(cache, real)
	if err == nil && hubShared.MatchString(filepath.ToSlash(name)) {
		return cache, name, true
	}
	return "", "", false
}

// fsFolder opens files beside a file of an fs.FS, which may be an os.DirFS and follow links anywhere: no link is followed.
type fsFolder struct {
	files.System
	model string
}

func (f *fsFolder) open(location string) (*files.Mapping, error) {
	name := path.Dir(f.model)
	parts := strings.Split(path.Clean(location), "/")
	for i, part := range parts {
		name = path.Join(name, part)
		info, err := f.Lstat(name)
		if err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 || i == len(parts)-1 && !info.Mode().IsRegular() {
			return nil, errNotRegular
		}
	}
	return f.Map(name)
}

// noFolder is beside a model that did not come from a file.
type noFolder struct{}

func (noFolder) open(string) (*files.Mapping, error) {
	return nil, errors.New("the model was not opened from a file, so the folder of its external data is unknown")
}
