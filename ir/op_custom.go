package ir

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/tensor"
)

// An OpDef defines a user's operator.
type OpDef struct {
	// Name is the operator's ONNX name after its domain: "com.example.Normalise". ONNX's own domain is spelled onnx, as in
	// "onnx.Scale", and may be left out.
	Name string
	// Infer returns the types of the results. Sizes may be symbolic.
	Infer func(in []Type, attrs Attrs) ([]Type, error)
	// Eval computes the results on the host. The operands must not be changed, nor kept beyond LateReads.
	Eval func(in []*tensor.Tensor, attrs Attrs) ([]*tensor.Tensor, error)
	// WGSL, where it is given, is what backend wgpu runs instead of Eval: declarations, among them fn compute(i: u32), which is
	// called for every element i of result 0 and may write whatever of the results belongs to it. It calls x0(i), x1(i), … for
	// element i (u32, row-major) of an operand, y0(i, v), y1(i, v), … to write one of a result, and x0_size(axis) or
	// y0_size(axis) for sizes. Elements are f32 for floats, bool, u32 for u8 and u32, and i32 for i8, i32 and i64, of which the
	// low 32 bits are seen. Attributes that are numbers are constants, i32 or f32, of their names with attr_ in front. What has
	// results of fewer than 32 bits, or operands of other types, runs by Eval.
	WGSL string
	// CUDA, where it is given, is what backend cuda runs instead of Eval: CUDA C++ with a function void compute(long long i), which is
	// called for every element i of result 0 and may write whatever of the results belongs to it. It stands in a struct, whose other
	// members it may call: those that WGSL calls, with long long indices and axes of int, and sizes as long long. Elements are float for
	// f32, f16 and bf16, double for f64, unsigned for bool, u8, u16 and u32, int for i8, i16 and i32, and long long for i64. Attributes
	// that are numbers are constants, long long or float. There are no headers. It is compiled on first use by NVRTC, which must be
	// installed.
	CUDA string
	// PTX, where it is given, is what backend cuda runs instead of Eval and CUDA, and needs no compiler: a text with a kernel named
	// compute, which runs in blocks of 256 threads, one thread at least for each element of result 0. Its only parameter is a struct of
	// arrays: the addresses of up to 8 operands, row-major and null where absent, and of up to 4 results; as 64-bit integers the numbers of
	// elements of each, and their sizes along up to 8 axes, 1 beyond their rank; and as float64 the first 8 attributes that are numbers.
	PTX string
	// LateReads is the number of steps after its own during which the kernel may still read its operands: for one that only
	// begins to send them elsewhere, say, and another that waits for the end. The memory of the operands stays as it is for so
	// long, unless CompileOptions.Liveness is liveness.Off.
	LateReads int
}

// AddOp adds a definition to a list, under the one spelling of its name. It is an error if the definition lacks a part, or if the
// list has one of its name.
func AddOp(list []*OpDef, d OpDef) ([]*OpDef, error) {
	switch {
	case d.Name == "":
		return nil, errors.New("a custom operator needs a name")
	case d.Infer == nil || d.Eval == nil:
		return nil, fmt.Errorf("custom operator %s needs a shape rule (Infer) and a kernel (Eval)", d.Name)
	case d.LateReads < 0:
		return nil, fmt.Errorf("custom operator %s reads its operands %d steps after its own: want 0 or more", d.Name, d.LateReads)
	}
	if dot := strings.LastIndexByte(d.Name, '.'); dot < 0 {
		d.Name = QualifiedName("ai.onnx", d.Name)
	} else {
		d.Name = QualifiedName(d.Name[:dot], d.Name[dot+1:])
	}
	if slices.ContainsFunc(list, func(e *OpDef) bool { return e.Name == d.Name }) {
		return nil, fmt.Errorf("a duplicate custom operator %s", d.Name)
	}
	return append(list, &d), nil
}

// QualifiedName is the one spelling of an ONNX operator's name with its domain: ai.onnx is short onnx.
func QualifiedName(domain, name string) string {
	if domain == "" || domain == "ai.onnx" {
		domain = "onnx"
	}
	return domain + "." + name
}

// Custom is a user's operator at a node. Its result types are those that its shape rule returned when the node was made.
type Custom struct {
	Name  string `ir:"name"`
	Attrs Attrs
	Types []Type `ir:"-"`
	// Def is the definition that Name stands for; nil in a graph that was read and not yet given the user's operators.
	Def *OpDef `ir:"-"`
}

// An Attr is a parameter of an operator: int64, float32, string, slices of these, or *tensor.Tensor.
type Attr struct {
	Name  string
	Value any
}

// Attrs are an operator's parameters in the model's order.
type Attrs []Attr

// Get finds a parameter by name.
func (a Attrs) Get(name string) (any, bool) {
	for _, x := range a {
		if x.Name == name {
			return x.Value, true
		}
	}
	return nil, false
}

func (Custom) Kind() Kind { return KindCustom }

func (o Custom) opName() string     { return o.Name }
func (Custom) named() map[string]Op { return nil }

// Infer returns the recorded types.
func (o Custom) Infer([]*Value) ([]Type, error) { return o.Types, nil }

// Eval computes the results that the node has, of the kernel's first ones.
func (o Custom) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if o.Def == nil {
		return nil, fmt.Errorf("no custom operator %s is registered", o.Name)
	}
	out, err := o.Def.Eval(in, o.Attrs)
	if err != nil {
		return nil, err
	}
	if len(out) < len(o.Types) {
		return nil, fmt.Errorf("the kernel of %s returns %d results, the node has %d", o.Name, len(out), len(o.Types))
	}
	return out[:len(o.Types)], nil
}

// SameTensors reports whether two ops that print the same have the same tensors as parameters: Params leaves out the elements of large
// ones.
func SameTensors(a, b Op) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for _, f := range fieldsOf(a).params {
		switch p := x.FieldByIndex(f.index).Interface().(type) {
		case Attrs:
			q := y.FieldByIndex(f.index).Interface().(Attrs)
			if !slices.EqualFunc(p, q, func(p, q Attr) bool { return reflect.DeepEqual(p.Value, q.Value) }) {
				return false
			}
		case Op:
			if !SameTensors(p, y.FieldByIndex(f.index).Interface().(Op)) {
				return false
			}
		}
	}
	return true
}
