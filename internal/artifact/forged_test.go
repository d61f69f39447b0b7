package artifact

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// forge changes the header of the file of program, which must keep its size, and makes the checksum right again.
func forge(t *testing.T, change func(h *Header)) []byte {
	data := written(t)
	f, err := Read(data, "")
	require.NoError(t, err)
	// Sections follow the header at multiples of 64: those stay where they are, however long the header gets.
	first := f.header.Sections[0].Offset
	change(f.header)
	header, err := proto.Marshal(f.header)
	require.NoError(t, err)
	shift := (prefixSize + uint64(len(header)) + alignment - 1) &^ (alignment - 1)
	for _, s := range f.header.Sections {
		s.Offset += shift + alignment - first // room for a length that changes with the offsets
	}
	header, err = proto.Marshal(f.header)
	require.NoError(t, err)
	out := append([]byte{}, data[:16]...)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(header)))
	out = binary.LittleEndian.AppendUint64(out, 0)
	out = append(out, header...)
	out = append(out, make([]byte, shift+alignment-uint64(len(out)))...)
	out = append(out, data[first:]...)
	seal(out)
	return out
}

// TestForgedHeaders: headers with right checksums that no rlxc writes.
func TestForgedHeaders(t *testing.T) {
	_, err := Read(forge(t, func(*Header) {}), "")
	require.NoError(t, err)
	for _, c := range []struct {
		want   string
		change func(h *Header)
	}{
		{"is outside the file's", func(h *Header) { h.Sections[0].Offset += 4 }},
		{"is outside the file's", func(h *Header) { h.Sections[0].Offset, h.Sections[0].Length = 1<<40, 0 }},
		{"is outside the file's", func(h *Header) { h.Sections[3].Length += alignment }},
		{"is outside the file's", func(h *Header) { h.Sections[0].Length = 1 << 63 }},
		{"the file has 2 sections", func(h *Header) { h.Sections, h.Files = h.Sections[:2], 0 }},
		{"it holds i32[8,8], the program wants f32[8,8]", func(h *Header) { h.Sections[0].Dtype = "i32" }},
		{"it holds f32[4,16], the program wants f32[8,8]", func(h *Header) { h.Sections[0].Shape = []int64{4, 16} }},
		{"axis 1 has size -8", func(h *Header) { h.Sections[0].Shape[1] = -8 }},
		{"its program", func(h *Header) { h.Ir = "" }},
	} {
		_, err := Read(forge(t, c.change), "forged")
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, c.want)
	}
}

// TestPrefixAlone: a file may end after its prefix, which then has to be right.
func TestPrefixAlone(t *testing.T) {
	data := append([]byte{}, written(t)[:prefixSize]...)
	binary.LittleEndian.PutUint64(data[16:], 0)
	seal(data)
	_, err := Read(data, "")
	require.ErrorContains(t, err, "its program")
	_, err = Read(data[:prefixSize-1], "")
	require.ErrorContains(t, err, "truncated within its first 32 bytes")
}

// TestTruthsAndNothing: constants of truths, and one without elements whose section begins where the file ends.
func TestTruthsAndNothing(t *testing.T) {
	g := ir.NewGraph("")
	truths := tensor.New(tensor.Bool, 600)
	for i := 0; i < 600; i += 7 {
		truths.SetInt64(i, 1)
	}
	p := g.NewValue("packed", ir.TensorOf(tensor.F32, ir.N(0), ir.N(8)))
	p.Packed = &ir.Packed{Layout: packed.Layout{Form: packed.F32, Panel: 48, Vector: 16}, Data: tensor.New(tensor.F32, 0, 16)}
	x := g.AddInput("x", ir.TensorOf(tensor.F32, ir.Sym("n"), ir.N(0)))
	for _, n := range []struct {
		op ir.Op
		in []*ir.Value
	}{{ir.Copy{}, []*ir.Value{g.NewConst("truths", truths)}}, {ir.MatMul{}, []*ir.Value{x, p}}} {
		out, err := g.Append(n.op, n.in)
		require.NoError(t, err)
		g.Outputs = append(g.Outputs, out[0])
	}
	var b bytes.Buffer
	require.NoError(t, Write(&b, "", 0, nil, Target{Graph: g}))
	f, err := Read(b.Bytes(), "")
	require.NoError(t, err)
	require.EqualValues(t, b.Len(), f.header.Sections[1].Offset)
	read, err := f.Graph()
	require.NoError(t, err)
	require.Equal(t, truths.Bytes(), read.Consts()[0].Const.Bytes())
	at := f.header.Sections[0].Offset
	b.Bytes()[at] = 2
	_, err = f.Graph()
	require.ErrorContains(t, err, "element 0 is 2, neither false nor true")
	require.ErrorContains(t, f.Verify(), "is damaged")
	b.Bytes()[at] = 1
	require.NoError(t, f.Verify())
}

// TestStrings: lists that end where their bytes end, before, or after.
func TestStrings(t *testing.T) {
	for _, c := range []struct {
		data  string
		shape tensor.Shape
		want  []string // nil: an error
	}{
		{"\x01a\x00\x02bc", tensor.Shape{3}, []string{"a", "", "bc"}},
		{"\x00\x00", tensor.Shape{2}, []string{"", ""}},
		{"\x01a", tensor.Shape{3}, nil},
		{"\x02a", tensor.Shape{1}, nil},
		{"\x80", tensor.Shape{1}, nil},
		{"\x01a", tensor.Shape{1 << 40, 1 << 40}, nil},
	} {
		got, err := decodeStrings([]byte(c.data), c.shape)
		require.Equal(t, c.want == nil, err != nil, "%q", c.data)
		require.Equal(t, c.want, got)
	}
	_, err := decodeStrings(make([]byte, maxStrings+1), tensor.Shape{maxStrings + 1})
	require.ErrorContains(t, err, "above the limit")
}
