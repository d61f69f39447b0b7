package main

import (
	"encoding/base64"
	"encoding/binary"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"
	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
)

// arrowTable is a table of Arrow's Schema.fbs, whose slot i is at 4+2i of its vtable.
type arrowTable struct{ flatbuffers.Table }

func (a arrowTable) at(slot int) flatbuffers.UOffsetT {
	return flatbuffers.UOffsetT(a.Offset(flatbuffers.VOffsetT(4 + 2*slot)))
}

func (a arrowTable) table(slot int) (out arrowTable) {
	out.Bytes = a.Bytes
	out.Pos = a.Indirect(a.Pos + a.at(slot))
	return out
}

func (a arrowTable) tables(slot int) (out []arrowTable) {
	at := a.at(slot)
	for i := range a.VectorLen(at) {
		t := arrowTable{}
		t.Bytes, t.Pos = a.Bytes, a.Indirect(a.Vector(at)+flatbuffers.UOffsetT(4*i))
		out = append(out, t)
	}
	return out
}

// A shownField is a field as text: its name, the number of its type, the first slot of the type, and its children.
type shownField struct {
	Name     string
	Kind     byte
	Number   int32
	Optional bool
	Children []shownField
}

func showFields(of []arrowTable) (out []shownField) {
	for _, f := range of {
		s := shownField{Name: f.String(f.Pos + f.at(0)), Kind: f.GetByte(f.Pos + f.at(2)), Children: showFields(f.tables(5))}
		if at := f.at(1); at > 0 {
			s.Optional = f.GetBool(f.Pos + at)
		}
		if of := f.table(3); of.at(0) > 0 && s.Kind == arrowFloat {
			s.Number = int32(of.GetInt16(of.Pos + of.at(0)))
		} else if of.at(0) > 0 {
			s.Number = of.GetInt32(of.Pos + of.at(0))
		}
		out = append(out, s)
	}
	return out
}

// TestArrowSchema holds that the Arrow schema of a file is a message of IPC that gives vectors a fixed size, and lists and structs
// children, and that its bytes are the same each time.
func TestArrowSchema(t *testing.T) {
	type row struct {
		ID     uint32            `parquet:"id"`
		Text   string            `parquet:"text"`
		Vector []float32         `parquet:"embedding,list"`
		Price  int64             `parquet:"price,decimal(2:12)"`
		In     struct{ A *bool } `parquet:"in"`
		Map    map[string]int64  `parquet:"map"`
		Many   []float64         `parquet:"many"`
	}
	for range 20 {
		require.Equal(t, arrowSchema(parquet.SchemaOf(row{}), vectorField, 384), arrowSchema(parquet.SchemaOf(row{}), vectorField, 384))
	}
	data, err := base64.StdEncoding.DecodeString(arrowSchema(parquet.SchemaOf(row{}), vectorField, 384))
	require.NoError(t, err)
	require.EqualValues(t, 1<<32-1, binary.LittleEndian.Uint32(data))
	require.EqualValues(t, len(data)-8, binary.LittleEndian.Uint32(data[4:]))
	require.Zero(t, len(data)%8)
	var message arrowTable
	message.Bytes = data[8:]
	message.Pos = flatbuffers.GetUOffsetT(message.Bytes)
	require.EqualValues(t, 4, message.GetInt16(message.Pos+message.at(0)))
	require.EqualValues(t, 1, message.GetByte(message.Pos+message.at(1)))
	require.Equal(t, []shownField{
		{Name: "id", Kind: arrowInt, Number: 32},
		{Name: "text", Kind: arrowUTF8},
		{Name: "embedding", Kind: arrowFixedSizeList, Number: 384, Children: []shownField{{Name: "element", Kind: arrowFloat, Number: 1}}},
		{Name: "price", Kind: arrowNull},
		{Name: "in", Kind: arrowStruct, Children: []shownField{{Name: "A", Kind: arrowBool, Optional: true}}},
		{Name: "map", Kind: arrowMap, Children: []shownField{{Name: "key_value", Kind: arrowStruct, Children: []shownField{
			{Name: "key", Kind: arrowUTF8}, {Name: "value", Kind: arrowInt, Number: 64}}}}},
		{Name: "many", Kind: arrowList, Children: []shownField{{Name: "element", Kind: arrowFloat, Number: 2}}},
	}, showFields(message.table(2).tables(0)))
}
