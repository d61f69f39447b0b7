package onnx

import (
	"fmt"
	"reflect"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/rlxc/rlxc/onnx/onnxpb"
)

// maxFootprint bounds the memory that the messages of a file take, weights aside: two bytes can ask for an empty node of 250.
// It is enough for half a million nodes as exporters write them.
const maxFootprint = 512 << 20

// checkFootprint estimates, before anything is decoded, what the messages and strings of a file will take.
func checkFootprint(b []byte, m protoreflect.Message) error {
	if n := footprint(b, messageShapes()[m.Descriptor().FullName()], maxNesting); n > maxFootprint {
		return fmt.Errorf("its nodes and names would take %d MiB of memory, the limit is %d MiB", n>>20, maxFootprint>>20)
	}
	return nil
}

// A messageShape is what a message and its fields cost in Go memory.
type messageShape struct {
	size   uint64
	fields map[protowire.Number]fieldShape
}

// A fieldShape is a field of messages (of shape message) or of strings (nil).
type fieldShape struct{ message *messageShape }

// stringSize is a string's or slice's own memory besides its bytes, which are in the file too.
const stringSize = 24

// footprint ends without complaint where the data does: decode says what is wrong.
func footprint(b []byte, shape *messageShape, depth int) uint64 {
	total := shape.size
	var field fieldShape
	last, counts := protowire.Number(0), false // a field of millions of numbers is looked up once
	for len(b) > 0 && depth > 0 {
		number, wire, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			break
		}
		size := protowire.ConsumeFieldValue(number, wire, b[tag:])
		if size < 0 {
			break
		}
		if number != last {
			last = number
			field, counts = shape.fields[number]
		}
		if counts && wire == protowire.BytesType {
			if field.message == nil {
				total += stringSize
			} else {
				content, _ := protowire.ConsumeBytes(b[tag:])
				total += footprint(content, field.message, depth-1)
			}
		}
		b = b[tag+size:]
	}
	return total
}

// messageShapes describes every message of onnx.proto.
var messageShapes = sync.OnceValue(func() map[protoreflect.FullName]*messageShape {
	shapes := map[protoreflect.FullName]*messageShape{}
	messages := onnxpb.File_rlxc_onnx_proto.Messages()
	for i := range messages.Len() {
		addShape(shapes, messages.Get(i))
	}
	return shapes
})

// addShape describes a message and those in it.
func addShape(shapes map[protoreflect.FullName]*messageShape, md protoreflect.MessageDescriptor) *messageShape {
	if shape, ok := shapes[md.FullName()]; ok {
		return shape
	}
	t, err := protoregistry.GlobalTypes.FindMessageByName(md.FullName())
	if err != nil {
		panic(err) // generated code registers what it describes
	}
	const pointer = 8 // bytes of the pointer in the list that holds the message
	shape := &messageShape{
		size:   pointer + uint64(reflect.TypeOf(t.Zero().Interface()).Elem().Size()),
		fields: map[protowire.Number]fieldShape{},
	}
	shapes[md.FullName()] = shape
	for i := range md.Fields().Len() {
		switch fd := md.Fields().Get(i); {
		case fd.Kind() == protoreflect.MessageKind:
			shape.fields[fd.Number()] = fieldShape{addShape(shapes, fd.Message())}
		case fd.IsList() && (fd.Kind() == protoreflect.StringKind || fd.Kind() == protoreflect.BytesKind):
			shape.fields[fd.Number()] = fieldShape{}
		}
	}
	return shape
}
