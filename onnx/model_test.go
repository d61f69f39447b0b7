package onnx

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"unsafe"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// allocated is what f allocates, in bytes.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestOpenCopiesNoWeights(t *testing.T) {
	dir := t.TempDir()
	cost := func(n int) uint64 {
		path := write(t, filepath.Join(dir, "model.onnx"), weighted(n))
		open := func() {
			m, err := Open(path)
			require.NoError(t, err)
			w, err := Tensor(m.Proto.Graph.Initializer[0])
			require.NoError(t, err)
			require.Equal(t, n, w.Len())
			require.NoError(t, m.Close())
		}
		open() // what happens once a process
		return allocated(open)
	}
	small, large := cost(4<<10), cost(16<<20)
	require.Less(t, large, small+4096, "16 KiB of weights: %d bytes allocated, 64 MiB: %d", small, large)
}

func TestWeightsLieInTheMapping(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "model.onnx"), weighted(5000))
	m, err := Open(path)
	require.NoError(t, err)
	defer m.Close()
	file, raw := m.files[0].Bytes(), m.Proto.Graph.Initializer[0].RawData
	at := uintptr(unsafe.Pointer(&raw[0])) - uintptr(unsafe.Pointer(&file[0]))
	require.Less(t, at, uintptr(len(file)))
}

func TestModelLivesUntilItsLastUserCloses(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "model.onnx"), weighted(5000))
	m, err := Open(path)
	require.NoError(t, err)
	m.Retain()
	require.NoError(t, m.Close())
	require.Zero(t, m.Proto.Graph.Initializer[0].RawData[0])
	require.NoError(t, m.Close())
	require.Empty(t, m.files)
}

func TestReadersAgree(t *testing.T) {
	dir := t.TempDir()
	want := weighted(5000)
	data, err := Marshal(want)
	require.NoError(t, err)
	path := write(t, filepath.Join(dir, "model.onnx"), want)

	for name, open := range map[string]func() (*Model, error){
		"Open":       func() (*Model, error) { return Open(path) },
		"OpenFS":     func() (*Model, error) { return OpenFS(fstest.MapFS{"a/m.onnx": {Data: data}}, "a/m.onnx") },
		"OpenFS dir": func() (*Model, error) { return OpenFS(os.DirFS(dir), "model.onnx") },
		"Read":       func() (*Model, error) { return Read(bytes.NewReader(data), int64(len(data)), "m") },
		"New":        func() (*Model, error) { return New(proto.CloneOf(want), "m") },
	} {
		m, err := open()
		require.NoError(t, err, name)
		require.True(t, proto.Equal(want, m.Proto), name)
		require.NoError(t, m.Close(), name)
	}
}

func TestSaveOverTheOpenModel(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "model.onnx"), weighted(5000))
	m, err := Open(path)
	require.NoError(t, err)
	defer m.Close()
	m.Proto.ProducerName = "rlxc"
	require.NoError(t, Save(path, m.Proto))
	again, err := Open(path)
	require.NoError(t, err)
	defer again.Close()
	require.True(t, proto.Equal(m.Proto, again.Proto))
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1)
}

func TestFilesThatAreNoModels(t *testing.T) {
	whole, err := Marshal(weighted(5000))
	require.NoError(t, err)
	deep := graph(nil, nil)
	for range maxNesting {
		deep = bare(nil, node("If", "", nil, nil, body("then_branch", deep)))
	}
	nested, err := Marshal(model(deep))
	require.NoError(t, err)
	padded := append(bytes.Clone(nested), whole...) // long enough for the walk
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "the file is empty"},
		{"text", []byte("hello\nworld, größer als\n"), "it is a text file"},
		{"LFS pointer", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\n"), "git lfs pull"},
		{"truncated", whole[:len(whole)-100], "the file is truncated: it ends in the middle of a field"},
		{"truncated in the head", whole[:3], "the file is truncated"},
		{"truncated within a length", whole[:bytes.IndexByte(whole, 0x3a)+1], "the file is truncated"},
		{"a field beyond the end of its message", append([]byte{0x3a, 3, 0x0a, 100, 0}, whole...), "malformed"},
		{"11-byte varint", append([]byte{0x08}, bytes.Repeat([]byte{0xff}, 11)...), "malformed"},
		{"11-byte varint in a large file", append(bytes.Clone(whole), append([]byte{0x08}, bytes.Repeat([]byte{0xff}, 11)...)...),
			"malformed"},
		{"random", []byte("\xde\xad\xbe\xef\x00\x01\x02\x03"), "malformed"},
		{"zeros", make([]byte, 10000), "malformed"},
		{"another message", []byte{0x08, 0x08}, "it has no graph"},
		{"nested", nested, "nest deeper than 100"},
		{"nested, in the walk", padded, "nest deeper than 100"},
	} {
		_, err := Read(bytes.NewReader(c.data), int64(len(c.data)), "some/model.onnx")
		require.ErrorIs(t, err, ErrInvalid, c.name)
		require.ErrorContains(t, err, "some/model.onnx: not an ONNX model: ", c.name)
		require.ErrorContains(t, err, c.want, c.name)
	}
}

func TestMessagesThatAreNoModels(t *testing.T) {
	for _, p := range []*onnxpb.ModelProto{nil, {}} {
		_, err := New(p, "m")
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, "m: ")
	}
}

func TestPathsThatAreNoFiles(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(filepath.Join(dir, "absent.onnx"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NotErrorIs(t, err, ErrInvalid)
	_, err = Open(dir)
	require.ErrorContains(t, err, "is a folder")
	_, err = Read(bytes.NewReader(nil), -1, "m")
	require.Error(t, err)
	_, err = Read(bytes.NewReader(nil), 8, "m")
	require.Error(t, err)
}

func TestQuote(t *testing.T) {
	require.Equal(t, `"/encoder/größe"`, Quote("/encoder/größe"))
	require.Equal(t, `"\x1b[31mred\u202e"`, Quote("\x1b[31mred\u202e"))
	require.Equal(t, `"\xff"`, Quote("\xff"))
	long := Quote(strings.Repeat("ö", 5000))
	require.Less(t, len(long), 160)
	require.Contains(t, long, "öö…\" (10000 bytes)")
	require.NotContains(t, long, `\x`)
}

func TestOpset(t *testing.T) {
	m, err := New(model(graph([]string{"x"}, []string{"y"}, add("", "x", "x", "y"))), "m")
	require.NoError(t, err)
	v, ok := m.Opset("ai.onnx")
	require.True(t, ok)
	require.EqualValues(t, 17, v)
	v, ok = m.Opset("com.microsoft")
	require.False(t, ok)
	require.Zero(t, v)
}

// The decoder of our own must agree with the library on every message and every error.
func TestDecodeAgreesWithTheLibrary(t *testing.T) {
	m := weighted(5000)
	long := make([]string, 3000)
	for i := range long {
		long[i] = "dozens"
	}
	m.Graph.Node = append(m.Graph.Node, node("Long", "n", long, nil,
		&onnxpb.AttributeProto{Name: "s", Type: onnxpb.AttributeProto_STRING, S: make([]byte, 9000)},
		&onnxpb.AttributeProto{Name: "f", Type: onnxpb.AttributeProto_FLOATS, Floats: make([]float32, 9000)},
		&onnxpb.AttributeProto{Name: "t", Type: onnxpb.AttributeProto_TENSOR, T: &onnxpb.TensorProto{
			DataType: int32(tensor.String), StringData: [][]byte{make([]byte, 5000), make([]byte, 5000)}}}))
	data, err := Marshal(m)
	require.NoError(t, err)
	data = append(data, data...) // a field given again is merged
	agree(t, data)
	for levels := range maxNesting / 2 { // which hold so much that each is walked, and pass the limit of either kind
		data, err := Marshal(m)
		require.NoError(t, err)
		agree(t, data)
		attribute := body("then_branch", m.Graph)
		if levels%2 == 1 {
			attribute = &onnxpb.AttributeProto{Name: "a", Type: onnxpb.AttributeProto_GRAPHS, Graphs: []*onnxpb.GraphProto{m.Graph}}
		}
		m = model(bare(nil, node("If", "", nil, nil, attribute)))
	}
}

func agree(t *testing.T, data []byte) {
	var ours, theirs onnxpb.ModelProto
	errOurs := decode(data, ours.ProtoReflect(), maxNesting)
	errTheirs := proto.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: maxNesting}.Unmarshal(data, &theirs)
	require.Equal(t, errTheirs == nil, errOurs == nil, "library: %v, ours: %v", errTheirs, errOurs)
	if errOurs == nil {
		require.True(t, proto.Equal(&theirs, &ours))
	}
}

// Two bytes ask for a node of 250: a small file must not take all memory before it is refused.
func TestFilesOfManyEmptyMessages(t *testing.T) {
	for _, field := range []byte{1<<3 | 2, 5<<3 | 2} { // nodes, initializers
		g := bytes.Repeat([]byte{field, 0}, 5<<20)
		data := append([]byte{7<<3 | 2}, append(protowire.AppendVarint(nil, uint64(len(g))), g...)...)
		used := allocated(func() {
			_, err := load("m.onnx", files.InMemory(data), noFolder{})
			require.ErrorContains(t, err, "m.onnx: not an ONNX model: its nodes and names would take ")
			require.Regexp(t, `take \d{4} MiB of memory, the limit is 512 MiB`, err.Error())
		})
		require.Less(t, used, uint64(1<<20))
	}
}

// A reader is a function that reads.
type reader func(p []byte, at int64) (int, error)

func (r reader) ReadAt(p []byte, at int64) (int, error) { return r(p, at) }

// TestReadersThatFail: what a caller's reader does wrong is an error that names the model.
func TestReadersThatFail(t *testing.T) {
	broken := errors.New("a broken disk")
	for why, r := range map[string]reader{
		"byte 8 is missing":               func([]byte, int64) (int, error) { return 0, broken },
		"m: a broken disk":                func(p []byte, at int64) (int, error) { return 1, broken },
		"m: the reader panics: a fault":   func([]byte, int64) (int, error) { panic("a fault") },
		"m: not an ONNX model: malformed": func(p []byte, at int64) (int, error) { return copy(p, bytes.Repeat([]byte{0xff}, 8)), broken },
	} {
		_, err := Read(r, 8, "m")
		require.ErrorContains(t, err, why)
	}
}

// TestBuiltMessages: what no file can hold, in models that were built: nothing in a list, and a message in itself.
func TestBuiltMessages(t *testing.T) {
	inList, inItself := withWeight(outside()), withWeight(outside())
	inList.Graph.Node = append(inList.Graph.Node, nil)
	g := inItself.Graph
	g.Node[0].Attribute = []*onnxpb.AttributeProto{{Name: "a", Type: onnxpb.AttributeProto_GRAPH, G: g}}
	for why, p := range map[string]*onnxpb.ModelProto{"m: element 1 of node in a GraphProto is nil": inList,
		"nest deeper than 100": inItself} {
		_, err := New(p, "m")
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, why)
	}
}

// TestEvictPart: bytes of a model's file leave memory and come back, others are not in it.
func TestEvictPart(t *testing.T) {
	m, err := Open(write(t, filepath.Join(t.TempDir(), "model.onnx"), weighted(5000)))
	require.NoError(t, err)
	defer m.Close()
	raw := m.Proto.Graph.Initializer[0].RawData
	before := bytes.Clone(raw)
	m.Evict()
	require.True(t, m.EvictPart(raw))
	require.False(t, m.EvictPart(before))
	require.Equal(t, before, raw)
}

// TestFootprint: what a message takes decoded grows with each message and string in it by what that takes at least.
func TestFootprint(t *testing.T) {
	of := func(nodes int, name string) uint64 {
		g := graph(nil, nil)
		for range nodes {
			g.Node = append(g.Node, &onnxpb.NodeProto{Input: []string{name, name}})
		}
		data, err := Marshal(model(g))
		require.NoError(t, err)
		return footprint(data, messageShapes()[new(onnxpb.ModelProto).ProtoReflect().Descriptor().FullName()], maxNesting)
	}
	one := of(2, "") - of(1, "")
	require.GreaterOrEqual(t, one, uint64(unsafe.Sizeof(onnxpb.NodeProto{}))+2*stringSize)
	require.Equal(t, of(2, "")+100*one, of(102, ""))
	shape := messageShapes()[new(onnxpb.AttributeProto).ProtoReflect().Descriptor().FullName()]
	texts, err := Marshal(&onnxpb.AttributeProto{Name: "a", Strings: make([][]byte, 7)})
	require.NoError(t, err)
	require.Equal(t, shape.size+7*stringSize, footprint(texts, shape, 1))
	require.Equal(t, of(9, ""), of(9, "a longer name"), "which is in the file as well")
}
