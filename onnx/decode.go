package onnx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// maxNesting bounds how deep messages nest; a body of If or Loop costs three levels.
	maxNesting = 100

	// copyBelow is the size below which a message goes to the protobuf library, which copies bytes fields. Only messages
	// above it can hold weights worth a walk of our own.
	copyBelow = 4096
)

var (
	errNesting   = fmt.Errorf("messages nest deeper than %d", maxNesting)
	errMalformed = errors.New("malformed protobuf")
	errTruncated = errors.New("the file is truncated: it ends in the middle of a field")
)

// unmarshal reads the message m from the bytes of a file. The large bytes fields of m become slices of b.
func unmarshal(b []byte, m protoreflect.Message) error {
	if err := checkFootprint(b, m); err != nil {
		return err
	}
	return decode(b, m, maxNesting)
}

// decode reads the message m from b as proto.Unmarshal does, but for large bytes fields, that is raw_data: those become
// slices of b.
//
// Large messages are walked field by field: sub-messages are decoded in turn, bytes fields are sliced, and each run of
// other fields between them is left to the library.
func decode(b []byte, m protoreflect.Message, depth int) error {
	if depth == 0 {
		return errNesting
	}
	if len(b) < copyBelow {
		return merge(b, m, depth)
	}
	fields := m.Descriptor().Fields()
	var fd protoreflect.FieldDescriptor
	last, ours := protowire.Number(0), false // a field of millions of numbers is looked up once
	run := b                                 // from the first field not decoded yet
	for rest := b; len(rest) > 0; {
		number, wire, tag := protowire.ConsumeTag(rest)
		if tag < 0 {
			return errMalformed
		}
		size := protowire.ConsumeFieldValue(number, wire, rest[tag:])
		if size < 0 {
			return errMalformed
		}
		before, value := run[:len(run)-len(rest)], rest[tag:tag+size]
		rest = rest[tag+size:]
		if number != last {
			last, fd = number, fields.ByNumber(number)
			ours = fd != nil && walked(fd)
		}
		if wire != protowire.BytesType || !ours {
			continue
		}
		if err := merge(before, m, depth); err != nil {
			return err
		}
		run = rest
		content, _ := protowire.ConsumeBytes(value)
		if err := decodeField(content, m, fd, depth); err != nil {
			return err
		}
	}
	return merge(run, m, depth)
}

// walked reports whether decode treats a field itself.
func walked(fd protoreflect.FieldDescriptor) bool {
	return fd.Kind() == protoreflect.MessageKind || fd.Kind() == protoreflect.BytesKind && !fd.IsList()
}

func decodeField(value []byte, m protoreflect.Message, fd protoreflect.FieldDescriptor, depth int) error {
	switch {
	case fd.Kind() == protoreflect.BytesKind:
		m.Set(fd, protoreflect.ValueOfBytes(value))
	case fd.IsList():
		list := m.Mutable(fd).List()
		if err := decode(value, list.AppendMutable().Message(), depth-1); err != nil {
			return fmt.Errorf("%s[%d]: %w", fd.Name(), list.Len()-1, err)
		}
	default:
		if err := decode(value, m.Mutable(fd).Message(), depth-1); err != nil {
			return fmt.Errorf("%s: %w", fd.Name(), err)
		}
	}
	return nil
}

// merge leaves fields to the protobuf library, which counts the message itself as the first level.
func merge(b []byte, m protoreflect.Message, depth int) error {
	if len(b) == 0 {
		return nil
	}
	err := proto.UnmarshalOptions{Merge: true, DiscardUnknown: true, RecursionLimit: depth}.Unmarshal(b, m.Interface())
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "recursion depth"): // the library has no value for it
		return errNesting
	}
	return errMalformed
}

// isTruncated reports whether b begins as a message of type m and ends in the middle of one of its fields. Only the outermost message of
// a file shows this: the end of the file is no end of a message inside it.
func isTruncated(b []byte, m protoreflect.MessageDescriptor) bool {
	for first := true; len(b) > 0; first = false {
		number, wire, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return !first && errors.Is(protowire.ParseError(tag), io.ErrUnexpectedEOF)
		}
		fd := m.Fields().ByNumber(number)
		if fd == nil {
			return false
		}
		switch fd.Kind() {
		case protoreflect.MessageKind, protoreflect.StringKind, protoreflect.BytesKind:
			if wire != protowire.BytesType {
				return false
			}
		default:
			if wire == protowire.BytesType && !fd.IsList() { // a list of numbers may be packed
				return false
			}
		}
		size := protowire.ConsumeFieldValue(number, wire, b[tag:])
		if size < 0 {
			return errors.Is(protowire.ParseError(size), io.ErrUnexpectedEOF)
		}
		b = b[tag+size:]
	}
	return false
}

// diagnose returns what is wrong with the bytes of a file that could not be decoded as the message m (err), or that hold no graph (nil).
func diagnose(b []byte, m proto.Message, err error) error {
	head := b[:min(len(b), 512)]
	switch {
	case len(b) == 0:
		return errors.New("the file is empty")
	case bytes.HasPrefix(b, []byte("version https://git-lfs")):
		return errors.New("it is a Git LFS pointer; fetch the file itself with git lfs pull")
	case isText(head):
		return errors.New("it is a text file")
	case err == nil:
		return errors.New("it has no graph")
	case isTruncated(b, m.ProtoReflect().Descriptor()):
		return errTruncated
	}
	return err
}

// isText reports whether bytes are printable text, the last character possibly cut.
func isText(b []byte) bool {
	for len(b) > 0 {
		if !utf8.FullRune(b) {
			return true
		}
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			return false
		}
		b = b[n:]
	}
	return true
}
