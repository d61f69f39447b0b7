package artifact

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// program is a small program with every kind of constant: inline, large, packed, strings, shared bytes.
func program(t testing.TB) *ir.Graph {
	g := ir.NewGraph("small")
	x := g.AddInput("x", ir.TensorOf(tensor.F32, ir.Sym("batch"), ir.N(8)))
	table := tensor.New(tensor.F32, 8, 8)
	for i := range table.Len() {
		table.SetFloat64(i, float64(i)/7)
	}
	add := func(op ir.Op, in ...*ir.Value) *ir.Value {
		out, err := g.Append(op, in, "node")
		require.NoError(t, err)
		return out[0]
	}
	w := g.NewConst("w", table)
	y := add(ir.MatMul{}, x, w)
	y = add(ir.MatMul{Act: ir.Gelu}, y, g.NewConst("the same bytes", table))
	y = add(ir.Binary{Fn: ir.Add}, y, g.NewConst("bias", tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6, 7, 0.1})))
	p := g.NewValue("packed", ir.TensorOf(tensor.F32, ir.N(8), ir.N(8)))
	p.Packed = &ir.Packed{Layout: packed.Layout{Form: packed.F32, Panel: 48, Vector: 16}, Data: tensor.New(tensor.F32, 8, 16)}
	y = add(ir.MatMul{}, y, p)
	names := make([]string, 40)
	for i := range names {
		names[i] = string(rune('a'+i%26)) + "é"
	}
	label := add(ir.Copy{}, g.NewConst("labels", tensor.FromStrings(names)))
	g.Outputs, g.OutputNames = []*ir.Value{y, label}, []string{"y", "labels"}
	return g
}

// files are the files beside a program.
var files = map[string][]byte{"tokenizer.json": []byte("{}"), "1_Pooling/config.json": []byte("[1]")}

func written(t testing.TB) []byte {
	var b bytes.Buffer
	require.NoError(t, Write(&b, "small.onnx", 2, files, Target{"cpu/avx512", program(t)}))
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	data := written(t)
	f, err := Read(data, "small.rlxc")
	require.NoError(t, err)
	require.Equal(t, Info{Target: "cpu/avx512", Source: "small.onnx", Level: 2}, f.Info)
	require.NoError(t, f.Verify())
	require.Len(t, f.header.Sections, 4, "two values share their bytes, and the files have a section")
	for _, s := range f.header.Sections {
		require.Zero(t, s.Offset%64)
	}
	g, err := f.Graph()
	require.NoError(t, err)
	want := program(t)
	require.Equal(t, want.String(), g.String())
	for i, v := range want.Consts() {
		got := g.Consts()[i]
		if v.Packed != nil {
			require.Equal(t, v.Packed.Data.Bytes(), got.Packed.Data.Bytes())
			continue
		}
		require.Equal(t, v.Const.Strings(), got.Const.Strings())
		require.True(t, bytes.Equal(v.Const.Bytes(), got.Const.Bytes()), v.Name)
	}
	var again bytes.Buffer
	require.NoError(t, Write(&again, f.Source, f.Level, files, Target{f.Target, g}))
	require.Equal(t, data, again.Bytes())
}

// TestNoSections: a program may have no constant that is stored alone.
func TestNoSections(t *testing.T) {
	g := ir.NewGraph("small")
	out, err := g.Append(ir.Copy{}, []*ir.Value{g.AddInput("x", ir.TensorOf(tensor.F32, ir.N(8)))})
	require.NoError(t, err)
	g.Outputs, g.OutputNames = out, []string{"y"}
	var b bytes.Buffer
	require.NoError(t, Write(&b, "small.onnx", 0, nil, Target{"cpu/generic", g}))
	_, err = Read(b.Bytes(), "small.rlxc")
	require.NoError(t, err)
}

func TestOtherVersion(t *testing.T) {
	data := written(t)
	data[8]++
	_, err := Read(data, "small.rlxc")
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "small.rlxc: invalid compiled model: it has version 3 of the format, this rlxc reads version 2")
}

// FuzzRead: whatever the bytes are, reading ends with a program that verifies or with an error.
func FuzzRead(f *testing.F) {
	data := written(f)
	f.Add(data)
	f.Add(data[:100])
	f.Fuzz(func(t *testing.T, data []byte) {
		seal(data)
		file, err := Read(data, "fuzz")
		if err != nil {
			require.ErrorIs(t, err, ErrInvalid)
			return
		}
		if _, err := file.Graph(); err != nil {
			t.Fatal("accepted once, refused again:", err)
		}
		_ = file.Verify()
		if held, err := Files(data); err == nil && held != nil {
			_ = fs.WalkDir(held, ".", func(path string, e fs.DirEntry, err error) error {
				if err == nil && !e.IsDir() {
					_, _ = fs.ReadFile(held, path)
				}
				return nil
			})
		}
	})
}

// seal makes the length and checksum of a changed file right again, so that fuzzing reaches what is after them.
func seal(data []byte) {
	if !IsArtifact(data) || len(data) < prefixSize {
		return
	}
	binary.LittleEndian.PutUint64(data[24:], uint64(len(data)))
	if n := binary.LittleEndian.Uint64(data[16:]); n <= uint64(len(data)-prefixSize) {
		binary.LittleEndian.PutUint32(data[12:], crc32.Checksum(data[prefixSize:prefixSize+n], castagnoli))
	}
}
