package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/jsontext"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// readers read the tensors of a file by the ending of its name; format says what the endings mean. want is the type of the input: bare
// JSON lists do not say their element type, and protobuf files not whether they hold a tensor, a sequence or an optional. A file of one
// tensor has the empty name for it.
var readers = map[string]func(data []byte, want ir.Type, limit int64) (rlxc.Tensors, error){
	".npy": func(data []byte, _ ir.Type, limit int64) (rlxc.Tensors, error) {
		t, err := tensor.ReadNPY(bytes.NewReader(data), limit)
		return rlxc.Tensors{"": t}, err
	},
	".npz": func(data []byte, _ ir.Type, limit int64) (rlxc.Tensors, error) {
		list, err := tensor.ReadNPZ(bytes.NewReader(data), int64(len(data)), limit)
		out := rlxc.Tensors{}
		for _, t := range list {
			out[t.Name] = t.Tensor
		}
		return out, err
	},
	".pb": func(data []byte, want ir.Type, _ int64) (rlxc.Tensors, error) {
		v, err := onnx.ParseValue(data, kinds[want.Kind])
		if err != nil {
			return nil, err
		}
		return rlxc.Tensors{"": v.Whole()}, nil
	},
	".json": func(data []byte, want ir.Type, _ int64) (rlxc.Tensors, error) {
		t, err := tensor.ParseJSON(data, elementType(want))
		return rlxc.Tensors{"": t}, err
	},
}

// kinds are the types by which package onnx reads a file. It needs nothing of them but the kind.
var kinds = map[ir.TypeKind]*onnxpb.TypeProto{
	ir.SequenceType: {Value: &onnxpb.TypeProto_SequenceType{SequenceType: &onnxpb.TypeProto_Sequence{}}},
	ir.OptionalType: {Value: &onnxpb.TypeProto_OptionalType{OptionalType: &onnxpb.TypeProto_Optional{}}},
}

// elementType returns the type of the numbers in a value.
func elementType(t ir.Type) tensor.DType {
	for t.Elem != nil {
		t = *t.Elem
	}
	return t.DType
}

// writers write tensors to a file by the ending of its name.
var writers = map[string]func(w io.Writer, names []string, tensors rlxc.Tensors) error{
	".npz": func(w io.Writer, names []string, tensors rlxc.Tensors) error {
		var list []tensor.Named
		for _, name := range names {
			list = append(list, tensor.Named{Name: name, Tensor: tensors[name]})
		}
		return tensor.WriteNPZ(w, list)
	},
	".json": func(w io.Writer, names []string, tensors rlxc.Tensors) error {
		err := writeTensors(w, "", "", names, tensors)
		if err == nil {
			_, err = io.WriteString(w, "\n")
		}
		return err
	},
}

// writeTensors writes lead, which is JSON, and then tensors as an object, one after the other on separate lines. It writes nothing if JSON
// cannot hold a name or a string.
func writeTensors(w io.Writer, lead, indent string, names []string, tensors rlxc.Tensors) error {
	if i := jsontext.NotUTF8(names); i >= 0 {
		return fmt.Errorf("the name of output %q is not UTF-8, and JSON cannot hold it: rename the output", names[i])
	}
	for _, name := range names {
		if t := tensors[name]; t.DType() == tensor.String {
			if err := t.WriteJSON(io.Discard); err != nil {
				return fmt.Errorf("output %q: %w", name, err)
			}
		}
	}
	before := lead + "{\n"
	for _, name := range names {
		key, err := json.Marshal(name)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, before+indent+"  "+string(key)+": "); err != nil {
			return err
		}
		if err := tensors[name].WriteJSON(w); err != nil {
			return fmt.Errorf("output %q: %w", name, err)
		}
		before = ",\n"
	}
	_, err := io.WriteString(w, strings.TrimPrefix(before, ",")+indent+"}")
	return err
}

func endings[F any](table map[string]F) string {
	var list []string
	for e := range table {
		list = append(list, e)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// inputNames returns the names that the flags --input give, and those of the arrays in archives without a name.
func inputNames(flags []string, limit int64) (names []string, err error) {
	for _, flag := range flags {
		if name, _, named := strings.Cut(flag, "="); named {
			names = append(names, name)
			continue
		}
		in, err := readInputs([]string{flag}, nil, nil, limit)
		if err != nil {
			return nil, err
		}
		names = slices.AppendSeq(names, maps.Keys(in))
	}
	return names, nil
}

// readInputs reads the flags --input: name=file, or an archive whose arrays are named after the inputs. Neither a file nor what it
// unpacks to takes more than limit bytes. types are those of the model's inputs, by name. A tensor for an optional input is its content.
func readInputs(flags []string, infos []rlxc.ValueInfo, types map[string]ir.Type, limit int64) (rlxc.Tensors, error) {
	out := rlxc.Tensors{}
	for _, flag := range flags {
		name, file, named := strings.Cut(flag, "=")
		if !named {
			name, file = "", flag
		}
		read := readers[filepath.Ext(file)]
		if read == nil {
			return nil, usagef("invalid --input %s: want a file of type %s", flag, endings(readers))
		}
		data, err := files.ReadFile(file, limit)
		if err != nil {
			return nil, err
		}
		var want ir.Type
		if named {
			i := slices.IndexFunc(infos, func(v rlxc.ValueInfo) bool { return v.Name == name })
			if i < 0 {
				return nil, fmt.Errorf("--input %s: unknown input %q: the model takes %s", flag, name, strings.Join(namesOf(infos), ", "))
			}
			if t, ok := types[name]; ok {
				want = t
			} else {
				want.DType = infos[i].DType
			}
		}
		tensors, err := read(data, want, limit)
		if err != nil {
			return nil, fmt.Errorf("--input %s: %w", flag, err)
		}
		switch {
		case !named:
			for n, t := range tensors {
				if n == "" {
					return nil, usagef("--input %s: the file names no input: want name=%s", flag, file)
				}
				out[n] = t
			}
		case tensors[name] != nil:
			out[name] = tensors[name]
		case len(tensors) == 1:
			for _, t := range tensors {
				out[name] = t
			}
		default:
			return nil, fmt.Errorf("%s has several arrays, and none is named %q", file, name)
		}
	}
	for name, x := range out {
		if types[name].Kind == ir.OptionalType && !x.IsSequence() {
			out[name] = tensor.NewSequence(x)
		}
	}
	return out, nil
}

// writeOutputs writes tensors to a file.
func writeOutputs(file string, names []string, tensors rlxc.Tensors) error {
	write := writers[filepath.Ext(file)]
	if write == nil {
		return usagef("invalid --output %s: want a file of type %s", file, endings(writers))
	}
	return files.ReplaceFile(file, func(w io.Writer) error { return write(w, names, tensors) })
}
