// Package onnx reads, checks and writes ONNX models.
//
// Open maps a file, so that weights are slices of it and not copies, loads external data, and checks the model: what it
// returns has sorted nodes, defined names and tensors of the right size. The messages themselves are those of package
// onnxpb, and Tensor returns their elements.
//
// This package is not part of rlxc's public API and may change without notice.
package onnx

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"sync/atomic"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// A Model is a checked model and the files that its weights are in. It counts its users and lives until the last one
// closes it; tensors of the model must not be touched after that.
type Model struct {
	Proto *onnxpb.ModelProto

	name  string
	files []*files.Mapping
	users atomic.Int32
}

// Open reads the model in a file. External data is looked for in the file's folder and nowhere else: beneath it, links out
// of it not followed, regular files only. It fails with ErrInvalid, or with an error of the file system.
func Open(path string) (*Model, error) {
	m, err := files.System{}.Map(path)
	if err != nil {
		return nil, err
	}
	return FromMapping(m, files.System{}, path)
}

// FromMapping reads the model in a mapping of the file at a path of system, with external data beside it. The model closes the mapping,
// also if FromMapping fails. It fails as Open does.
func FromMapping(m *files.Mapping, system files.System, path string) (*Model, error) {
	if system.FS == nil {
		return load(path, m, &folder{path: filepath.Dir(path)})
	}
	return load(path, m, &fsFolder{system, path})
}

// OpenFS reads the model in a file of a file system, external data beside it. Files of the operating system (os.DirFS,
// os.Root.FS) are mapped, others read into memory. It fails as Open does.
func OpenFS(fsys fs.FS, name string) (*Model, error) {
	system := files.System{FS: fsys}
	m, err := system.Map(name)
	if err != nil {
		return nil, err
	}
	return FromMapping(m, system, name)
}

// Read reads a model of the given size in bytes into memory. It cannot have external data; name stands for it in messages.
// It fails with ErrInvalid, or with the error of r.
func Read(r io.ReaderAt, size int64, name string) (*Model, error) {
	data, err := ReadAll(r, size, name)
	if err != nil {
		return nil, err
	}
	return FromBytes(data, name)
}

// FromBytes decodes a model, and keeps the bytes. It cannot have external data. It fails with ErrInvalid.
func FromBytes(data []byte, name string) (*Model, error) {
	return load(name, files.InMemory(data), noFolder{})
}

// ReadAll reads size bytes of what name stands for in messages. It fails with the error of r.
func ReadAll(r io.ReaderAt, size int64, name string) ([]byte, error) {
	if size < 0 || size > math.MaxInt {
		return nil, fmt.Errorf("%s: invalid size of %d bytes", name, size)
	}
	data, err := readAll(r, int(size))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}

// readAll reads size bytes. It looks first whether there are as many before it takes memory for them.
func readAll(r io.ReaderAt, size int) (data []byte, err error) {
	defer func() {
		if v := recover(); v != nil { // of the caller's reader
			data, err = nil, fmt.Errorf("the reader panics: %v", v)
		}
	}()
	if size > 0 {
		if n, err := r.ReadAt(make([]byte, 1), int64(size)-1); n < 1 {
			return nil, fmt.Errorf("it is truncated: byte %d is missing: %w", size, err)
		}
	}
	data = tensor.AlignedBytes(size)
	if n, err := r.ReadAt(data, 0); n < len(data) {
		return nil, err
	}
	return data, nil
}

// New checks a model that was built in memory and takes it over. It cannot have external data. It fails with ErrInvalid.
func New(p *onnxpb.ModelProto, name string) (*Model, error) {
	if p == nil {
		return nil, invalid(fmt.Errorf("%s: nil is not a model", name))
	}
	if err := checkBuilt(p.ProtoReflect(), 0); err != nil {
		return nil, invalid(fmt.Errorf("%s: %w", name, err))
	}
	m := &Model{Proto: p, name: name}
	m.users.Store(1)
	if err := m.finish(noFolder{}); err != nil {
		return nil, err
	}
	return m, nil
}

// checkBuilt finds what no decoder makes: messages that are nil in their lists, and messages without an end.
func checkBuilt(m protoreflect.Message, depth int) (err error) {
	if depth > maxNesting { // one that holds itself has no end
		return errNesting
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case !f.IsList():
			err = checkBuilt(v.Message(), depth+1)
		default:
			for i := range v.List().Len() {
				e := v.List().Get(i).Message()
				if !e.IsValid() {
					err = fmt.Errorf("element %d of %s in a %s is nil", i, f.Name(), m.Descriptor().Name())
					break
				}
				if err = checkBuilt(e, depth+1); err != nil {
					break
				}
			}
		}
		return err == nil
	})
	return err
}

// load decodes and checks a file; the mapping is the model's, or closed on an error.
func load(name string, file *files.Mapping, beside opener) (*Model, error) {
	m := &Model{Proto: new(onnxpb.ModelProto), name: name, files: []*files.Mapping{file}}
	m.users.Store(1)
	err := unmarshal(file.Bytes(), m.Proto.ProtoReflect())
	if err != nil || m.Proto.Graph == nil {
		err = invalid(fmt.Errorf("%s: not an ONNX model: %w", name, diagnose(file.Bytes(), m.Proto, err)))
	} else {
		err = m.finish(beside)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// finish makes a decoded model what Open promises.
func (m *Model) finish(beside opener) error {
	if err := m.loadExternal(beside); err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	if err := Check(m.Proto); err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	return nil
}

// Name returns the path or name that was passed to Open.
func (m *Model) Name() string { return m.name }

// Retain adds a user, who must call Close.
func (m *Model) Retain() *Model {
	m.users.Add(1)
	return m
}

// Evict advises the system that all of the model's files are not needed in memory for now; what is touched again comes back
// from them.
func (m *Model) Evict() {
	for _, f := range m.files {
		f.Evict(f.Bytes())
	}
}

// EvictPart is Evict for some bytes, such as a tensor's. It reports whether they are in one of the files.
func (m *Model) EvictPart(part []byte) bool {
	return slices.ContainsFunc(m.files, func(f *files.Mapping) bool { return f.Evict(part) })
}

// Stamps returns the states of the model's files when they were opened: its own, and those of external data.
func (m *Model) Stamps() (all []files.Stamp) {
	for _, f := range m.files {
		all = append(all, f.Stamps()...)
	}
	return all
}

// Close ends one use; the last one unmaps the files. It fails with an error of unmapping.
func (m *Model) Close() error {
	if m.users.Add(-1) != 0 {
		return nil
	}
	var first error
	for _, f := range m.files {
		if err := f.Close(); err != nil && first == nil {
			first = err
		}
	}
	m.files = nil
	return first
}

// Opset is the version of an operator set that the model imports; "" and "ai.onnx" are the same. ok is false when it
// imports none.
func (m *Model) Opset(domain string) (version int64, ok bool) {
	return Opset(m.Proto.OpsetImport, domain)
}

// Opset is Model.Opset for the imports of a function.
func Opset(imports []*onnxpb.OperatorSetIdProto, domain string) (version int64, ok bool) {
	for _, o := range imports {
		if Domain(o.Domain) == Domain(domain) {
			return o.Version, true
		}
	}
	return 0, false
}

// Domain spells the default domain in one way, "".
func Domain(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}
