// Package artifact reads and writes compiled models: files that open by mapping, without copying or packing a weight, and
// whose pages all processes share.
//
// # The format
//
// All numbers are little-endian.
//
//	offset 0   8 bytes   magic: 89 'R' 'L' 'X' 'C' 0D 0A 1A
//	offset 8   uint32    version of the format
//	offset 12  uint32    CRC-32C of the header
//	offset 16  uint64    length of the header
//	offset 24  uint64    length of the file
//	offset 32  Header    (artifact.proto)
//	…          sections, each at a multiple of 64 bytes, zeros between them
//
// The magic is made like PNG's: it is not text, and a transfer as text damages it.
package artifact

//go:generate go run -C ../../onnx/_gen . ../../internal/artifact/artifact.proto ../../internal/artifact/artifact.pb.go

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/internal/sharing"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/planner"
	"github.com/rlxc/rlxc/tensor"
)

// Version is the version of the format that this package writes, and the only one that it reads.
const Version = 2

// ErrInvalid is what every error about the contents of a compiled file is, for errors.Is.
var ErrInvalid = errors.New("invalid compiled model")

var magic = []byte("\x89RLXC\r\n\x1a")

const (
	prefixSize = 32
	alignment  = 64
	// maxHeader bounds what is decoded before anything is known of a file.
	maxHeader = 256 << 20
	// tablePiece is the size in which tables are written of which runs look up few rows. Linux keeps a file in its page cache in
	// pieces as large as the writes that made it, and brings a whole one with each row; weights want large ones.
	tablePiece = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// IsArtifact reports whether a file that begins with these bytes is a compiled model.
func IsArtifact(start []byte) bool { return bytes.HasPrefix(start, magic) }

// highestLevel is the last level of optimisation.
const highestLevel = 2

// Info describes a compiled model.
type Info struct {
	Target string // name of the device whose kernels the weights are packed for, in the file's first program
	Source string // name of the model, for messages
	Level  int    // level of optimisation, 0 to 2
}

// A Target is the program for a device.
type Target struct {
	Name  string
	Graph *ir.Graph
}

// Write writes the programs of a model for one or more devices, and files by their paths with slashes, such as "1_Pooling/config.json".
// source and level are those of Info.
func Write(w io.Writer, source string, level int, files map[string][]byte, targets ...Target) error {
	var layout planner.SharedWeightLayout
	contents := map[uint64]section{} // by offset
	numbers := map[string]int{}      // one section for values of one type that share their bytes
	h := &Header{Target: targets[0].Name, Source: source, Level: uint32(level)}
	var broken error
	add := func(name string, data []byte, d tensor.DType, shape tensor.Shape, table bool) int {
		slot, err := layout.Add(sharing.Digest(data), name, int64(len(data)), alignment)
		broken = errors.Join(broken, err)
		s := &Section{Offset: uint64(slot.Offset), Length: uint64(len(data)), Crc: crc32.Checksum(data, castagnoli), Dtype: d.String()}
		for _, n := range shape {
			s.Shape = append(s.Shape, int64(n))
		}
		like := fmt.Sprint(slot.Offset, d, shape)
		if n, ok := numbers[like]; ok {
			return n
		}
		numbers[like] = len(h.Sections)
		h.Sections, contents[s.Offset] = append(h.Sections, s), section{data, table}
		return len(h.Sections) - 1
	}
	number := func(v *ir.Value) int {
		t := v.Const
		if t == nil {
			t = v.Packed.Data
		}
		data := t.Bytes()
		if t.DType() == tensor.String {
			data = encodeStrings(t.Strings())
		}
		return add(v.Name, data, t.DType(), t.Shape(), v.IsTable())
	}
	h.Ir = targets[0].Graph.Encode(number)
	for _, t := range targets[1:] {
		h.Others = append(h.Others, &Program{Target: t.Name, Ir: t.Graph.Encode(number)})
	}
	if len(files) > 0 {
		archive, err := pack(files)
		broken = errors.Join(broken, err)
		h.Files = uint32(add("files", archive, tensor.U8, tensor.Shape{len(archive)}, false)) + 1
	}
	if broken != nil {
		return broken
	}
	header, base, err := layOut(h)
	if err != nil {
		return err
	}
	prefix := append(make([]byte, 0, prefixSize), magic...)
	prefix = binary.LittleEndian.AppendUint32(prefix, Version)
	prefix = binary.LittleEndian.AppendUint32(prefix, crc32.Checksum(header, castagnoli))
	prefix = binary.LittleEndian.AppendUint64(prefix, uint64(len(header)))
	size := base + uint64(layout.Size)
	prefix = binary.LittleEndian.AppendUint64(prefix, size)
	at := uint64(0)
	put := func(b []byte) error {
		n, err := w.Write(b)
		at += uint64(n)
		return err
	}
	if err := errors.Join(put(prefix), put(header)); err != nil {
		return err
	}
	for _, offset := range slices.Sorted(maps.Keys(contents)) {
		c := contents[offset]
		if err := put(make([]byte, base+offset-at)); err != nil {
			return err
		}
		piece := max(1, len(c.data))
		if c.table {
			piece = tablePiece
		}
		for part := range slices.Chunk(c.data, piece) {
			if err := put(part); err != nil {
				return err
			}
		}
	}
	return put(make([]byte, size-at))
}

// section is what a section holds.
type section struct {
	data  []byte
	table bool
}

// layOut moves the sections, whose offsets are those in their segment, after the header, and encodes it. Offsets are varints: a
// header that grows moves them, so it is repeated until nothing moves.
func layOut(h *Header) (header []byte, base uint64, err error) {
	marshal := proto.MarshalOptions{Deterministic: true}
	for {
		before := len(header)
		if header, err = marshal.Marshal(h); err != nil {
			return nil, 0, err
		}
		if before > 0 && len(header) == before {
			return header, base, nil
		}
		next := (uint64(prefixSize+len(header)) + alignment - 1) &^ (alignment - 1)
		for _, s := range h.Sections {
			s.Offset += next - base
		}
		base = next
	}
}

// A File is an opened compiled model. The constants of its program are slices of the bytes that Read got.
type File struct {
	Info
	header  *Header
	data    []byte
	program string // program in the text form of package ir
	text    *sections
}

// sections are sections of strings, which are decoded once however many constants show them.
type sections struct {
	mu       sync.Mutex
	sections map[int]*tensor.Tensor
}

// Read checks a compiled file as far as opening needs: prefix, header, program, and the bounds of the sections. name is
// for it in errors.
func Read(data []byte, name string) (*File, error) {
	f, err := read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrInvalid, err)
	}
	return f, nil
}

// readHeader checks and decodes the header.
func readHeader(data []byte) (*Header, error) {
	if !IsArtifact(data) {
		return nil, errors.New("it does not begin like a compiled model")
	}
	if len(data) < prefixSize {
		return nil, errors.New("it is truncated within its first 32 bytes")
	}
	version, crc := binary.LittleEndian.Uint32(data[8:]), binary.LittleEndian.Uint32(data[12:])
	length, size := binary.LittleEndian.Uint64(data[16:]), binary.LittleEndian.Uint64(data[24:])
	switch {
	case version != Version:
		return nil, fmt.Errorf("it has version %d of the format, this rlxc reads version %d: compile the model again", version, Version)
	case length > maxHeader:
		return nil, fmt.Errorf("its header of %d bytes is above the limit of %d", length, maxHeader)
	case uint64(len(data)) < size || uint64(len(data)) < prefixSize+length:
		return nil, fmt.Errorf("it is truncated: %d of %d bytes", len(data), size)
	case uint64(len(data)) > size:
		return nil, fmt.Errorf("it has %d bytes, %d more than it declares", len(data), uint64(len(data))-size)
	}
	header := data[prefixSize : prefixSize+length]
	if crc32.Checksum(header, castagnoli) != crc {
		return nil, errors.New("its header is damaged: the checksum differs")
	}
	h := new(Header)
	if err := proto.Unmarshal(header, h); err != nil {
		return nil, fmt.Errorf("its header: %w", err)
	}
	for i, s := range h.Sections {
		if s.Offset%alignment != 0 || s.Offset > size || s.Length > size-s.Offset {
			return nil, fmt.Errorf("section %d, bytes %d to %d, is outside the file's %d", i, s.Offset, s.Offset+s.Length, size)
		}
	}
	if h.Level > highestLevel {
		return nil, fmt.Errorf("its level is %d: there are 0 to %d", h.Level, highestLevel)
	}
	if int(h.Files) > len(h.Sections) {
		return nil, fmt.Errorf("its files are in section %d: there are 0 to %d", h.Files-1, len(h.Sections)-1)
	}
	return h, nil
}

func read(data []byte) (*File, error) {
	h, err := readHeader(data)
	if err != nil {
		return nil, err
	}
	f := &File{Info{h.Target, h.Source, int(h.Level)}, h, data, h.Ir, &sections{sections: map[int]*tensor.Tensor{}}}
	if _, err := f.Graph(); err != nil {
		return nil, err
	}
	return f, nil
}

// Targets returns the names of the devices for which the file has programs.
func (f *File) Targets() []string {
	names := []string{f.header.Target}
	for _, p := range f.header.Others {
		names = append(names, p.Target)
	}
	return names
}

// For returns the file with the program of a device: its own, or else the first one for its backend, or else the first.
func (f *File) For(target string) *File {
	same := func(a, b string) bool { return a == b }
	sameBackend := func(a, b string) bool {
		a, _, _ = strings.Cut(a, "/")
		b, _, _ = strings.Cut(b, "/")
		return a == b
	}
	programs := append([]*Program{{Target: f.header.Target, Ir: f.header.Ir}}, f.header.Others...)
	for _, fits := range []func(a, b string) bool{same, sameBackend} {
		if i := slices.IndexFunc(programs, func(p *Program) bool { return fits(p.Target, target) }); i >= 0 {
			found := *f
			found.Target, found.program = programs[i].Target, programs[i].Ir
			return &found
		}
	}
	return f
}

// Graph decodes the program again: the caller may change it. rule finds the custom operators.
func (f *File) Graph() (*ir.Graph, error) {
	g, err := ir.Decode(f.program, f.section)
	if err != nil {
		return nil, fmt.Errorf("its program: %w", err)
	}
	if err := ir.Verify(g); err != nil {
		return nil, fmt.Errorf("its program: %w", err)
	}
	return g, nil
}

// section returns the content of a constant.
func (f *File) section(number int, t ir.Type, layout packed.Layout) (*tensor.Tensor, error) {
	if number < 0 || number >= len(f.header.Sections) {
		return nil, fmt.Errorf("the file has %d sections", len(f.header.Sections))
	}
	s := f.header.Sections[number]
	d, err := tensor.ParseDType(s.Dtype)
	if err != nil {
		return nil, err
	}
	shape := make(tensor.Shape, len(s.Shape))
	for i, n := range s.Shape {
		if n < 0 || n > math.MaxInt {
			return nil, fmt.Errorf("axis %d has size %d", i, n)
		}
		shape[i] = int(n)
	}
	if want, ok := t.Static(); layout.Form == packed.Invalid && (!ok || d != t.DType || !want.Equal(shape)) {
		return nil, fmt.Errorf("it holds %s%v, the program wants %v", d, shape, t)
	}
	data := f.data[s.Offset : s.Offset+s.Length : s.Offset+s.Length]
	switch d {
	case tensor.String:
		f.text.mu.Lock()
		defer f.text.mu.Unlock()
		if f.text.sections[number] == nil {
			list, err := decodeStrings(data, shape)
			if err != nil {
				return nil, err
			}
			f.text.sections[number] = tensor.FromStrings(list, shape...)
		}
		return f.text.sections[number], nil
	case tensor.Bool: // Go's has no third value
		if i := slices.IndexFunc(data, func(b byte) bool { return b > 1 }); i >= 0 {
			return nil, fmt.Errorf("element %d is %d, neither false nor true", i, data[i])
		}
	}
	return tensor.FromBytes(d, shape, data)
}

// Verify checks the checksum of every section, and the programs for all devices, which opening does not.
func (f *File) Verify() error {
	for i, s := range f.header.Sections {
		if crc32.Checksum(f.data[s.Offset:s.Offset+s.Length], castagnoli) != s.Crc {
			return fmt.Errorf("%w: section %d, bytes %d to %d, is damaged: the checksum differs", ErrInvalid, i, s.Offset,
				s.Offset+s.Length)
		}
	}
	for _, target := range f.Targets() {
		if _, err := f.For(target).Graph(); err != nil {
			return fmt.Errorf("%w: for %s: %w", ErrInvalid, target, err)
		}
	}
	return nil
}

// encodeStrings writes each string after its length.
func encodeStrings(list []string) []byte {
	out := []byte{}
	for _, s := range list {
		out = append(binary.AppendUvarint(out, uint64(len(s))), s...)
	}
	return out
}

// maxStrings bounds the strings of a section: an empty one takes a byte of the file and 16 in memory.
const maxStrings = 1 << 24

func decodeStrings(data []byte, shape tensor.Shape) ([]string, error) {
	count, err := shape.CheckElements(tensor.String)
	switch {
	case err != nil || count > len(data):
		return nil, fmt.Errorf("%d bytes cannot hold strings of shape %v", len(data), shape)
	case count > maxStrings:
		return nil, fmt.Errorf("%d strings are above the limit of %d", count, maxStrings)
	}
	list, text := make([]string, count), string(data) // text is one copy of data; the strings are slices of text
	for i := range list {
		n, used := binary.Uvarint(data)
		if used <= 0 || n > uint64(len(data)-used) {
			return nil, fmt.Errorf("string %d is truncated", i)
		}
		list[i] = text[len(text)-len(data)+used:][:n]
		data = data[used+int(n):]
	}
	return list, nil
}
