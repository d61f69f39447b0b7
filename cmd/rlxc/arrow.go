package main

import (
	"encoding/base64"
	"encoding/binary"

	flatbuffers "github.com/google/flatbuffers/go"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// arrowKey is the key in a Parquet file's metadata whose value is the Arrow schema of the file. Parquet has no lists of a fixed size.
// polars and pyarrow make such lists of the columns that the Arrow schema declares as FixedSizeList.
const arrowKey = "ARROW:schema"

// Numbers of the union Type in Arrow's Schema.fbs.
const (
	arrowNull          = 1
	arrowInt           = 2
	arrowFloat         = 3
	arrowUTF8          = 5
	arrowBool          = 6
	arrowList          = 12
	arrowStruct        = 13
	arrowFixedSizeList = 16
	arrowMap           = 17
)

// arrowSchema returns the value of arrowKey for the rows of a file: an IPC message with a schema, in base64. Lists of the column vector
// have size numbers. A type that rows of rlxc do not have is Null, for which readers take the type of Parquet.
func arrowSchema(rows parquet.Node, vector string, size int) string {
	b := flatbuffers.NewBuilder(1 << 10)
	var fields []flatbuffers.UOffsetT
	for _, f := range rows.Fields() {
		n := 0
		if f.Name() == vector {
			n = size
		}
		fields = append(fields, arrowField(b, f.Name(), f, n))
	}
	list := arrowVector(b, fields)
	b.StartObject(4) // Schema
	b.PrependUOffsetTSlot(1, list, 0)
	schema := b.EndObject()
	b.StartObject(5) // Message
	b.PrependUOffsetTSlot(2, schema, 0)
	b.PrependByteSlot(1, 1, 0)  // its header is a Schema
	b.PrependInt16Slot(0, 4, 0) // version 5 of the metadata
	b.Finish(b.EndObject())
	message := b.FinishedBytes()
	padded := (len(message) + 7) &^ 7
	out := binary.LittleEndian.AppendUint32([]byte{255, 255, 255, 255}, uint32(padded))
	out = append(out, message...)
	return base64.StdEncoding.EncodeToString(append(out, make([]byte, padded-len(message))...))
}

func arrowVector(b *flatbuffers.Builder, of []flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	b.StartVector(4, len(of), 4)
	for i := len(of) - 1; i >= 0; i-- {
		b.PrependUOffsetT(of[i])
	}
	return b.EndVector(len(of))
}

// arrowField writes a Field. size is the length of its lists, 0 if it is no list or they have any length.
func arrowField(b *flatbuffers.Builder, name string, n parquet.Node, size int) flatbuffers.UOffsetT {
	var children []flatbuffers.UOffsetT
	kind, slots := byte(arrowStruct), []int(nil) // numbers in the slots of the type's table, in a fixed order: a file is the same each time
	element, isList := listElement(n)
	switch {
	case isList && size > 0:
		kind, slots = arrowFixedSizeList, []int{size}
		children = append(children, arrowField(b, "element", element, 0))
	case isList:
		kind = arrowList
		children = append(children, arrowField(b, "element", element, 0))
	case n.Leaf():
		kind, slots = arrowLeaf(n)
	default:
		if isMap(n) {
			kind = arrowMap
		}
		for _, f := range n.Fields() {
			child := parquet.Node(f)
			if isMap(n) {
				child = parquet.Required(f)
			}
			children = append(children, arrowField(b, f.Name(), child, 0))
		}
	}
	inner := arrowVector(b, children)
	label := b.CreateString(name)
	b.StartObject(2)
	for slot, v := range slots {
		if kind == arrowInt && slot == 1 {
			b.PrependBoolSlot(slot, v != 0, false)
		} else if kind == arrowFloat {
			b.PrependInt16Slot(slot, int16(v), 0)
		} else {
			b.PrependInt32Slot(slot, int32(v), 0)
		}
	}
	of := b.EndObject()
	b.StartObject(7)
	b.PrependUOffsetTSlot(5, inner, 0)
	b.PrependUOffsetTSlot(3, of, 0)
	b.PrependUOffsetTSlot(0, label, 0)
	b.PrependByteSlot(2, kind, 0)
	b.PrependBoolSlot(1, n.Optional(), false)
	return b.EndObject()
}

// arrowLeaf returns the type of a single value.
func arrowLeaf(n parquet.Node) (kind byte, slots []int) {
	logical := n.Type().LogicalType()
	if logical != nil {
		if l, ok := logical.Value.(*format.IntType); ok {
			signed := 0
			if l.IsSigned {
				signed = 1
			}
			return arrowInt, []int{int(l.BitWidth), signed}
		}
	}
	switch k := n.Type().Kind(); {
	case textual(n):
		return arrowUTF8, nil
	case logical != nil:
	case k == parquet.Boolean:
		return arrowBool, nil
	case k == parquet.Int32:
		return arrowInt, []int{32, 1}
	case k == parquet.Int64:
		return arrowInt, []int{64, 1}
	case k == parquet.Float:
		return arrowFloat, []int{1}
	case k == parquet.Double:
		return arrowFloat, []int{2}
	}
	return arrowNull, nil
}
