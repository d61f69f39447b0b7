package ir

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/tensor"
)

// An OpDef defines a user's operator.
type OpDef struct {
	// Name is the operator's ONNX name after its domain: "com.example.Normalise". ONNX's own domain is written onnx, as in "onnx.Scale",
	// and may be omitted.
	Name string
	// Infer returns the types of the results. Sizes may be symbolic.
	Infer func(in []Type, attrs Attrs) ([]Type, error)
	// Eval computes the results on the host. It must not change the operands, nor use them after LateReads.
	Eval func(in []*tensor.Tensor, attrs Attrs) ([]*tensor.Tensor, error)
	// WGSL is optional source that backend wgpu runs instead of Eval. It declares fn compute(i: u32), which is called for every element i
	// of result 0 and may write the elements of the results that belong to it. The source may call x0(i), x1(i), … for element i (u32,
	// row-major) of an operand, y0(i, v), y1(i, v), … to write an element of a result, and x0_size(axis) or y0_size(axis) for sizes.
	//
	// Elements are f32 for floats, bool, u32 for u8 and u32, and i32 for i8, i32 and i64, of which only the low 32 bits are visible.
	// Numeric attributes are constants of type i32 or f32, named attr_ and the attribute. Eval runs the operator if results have fewer
	// than 32 bits, or if operands have other types.
	WGSL string
	// CUDA is optional source that backend cuda runs instead of Eval: CUDA C++ with a function void compute(long long i). It is called
	// for every element i of result 0 and may write the elements of the results that belong to it. The source is put into a struct with
	// the functions that WGSL has. Here indices and sizes are long long, and axes are int.
	//
	// Elements are float for f32, f16 and bf16, double for f64, unsigned for bool, u8, u16 and u32, int for i8, i16 and i32, and long
	// long for i64. Numeric attributes are constants of type long long or float. There are no headers. NVRTC, which must be installed,
	// compiles the source on first use.
	CUDA string
	// PTX is optional source that backend cuda runs instead of Eval and CUDA. It needs no compiler. It has a kernel named compute, which
	// runs in blocks of 256 threads, with at least one thread for each element of result 0.
	//
	// The only parameter of the kernel is a struct of arrays. The arrays hold the addresses of up to 8 operands, row-major and null if
	// absent; the addresses of up to 4 results; the numbers of elements of each as 64-bit integers; their sizes along up to 8 axes, 1
	// beyond their rank; and the first 8 numeric attributes as float64.
	PTX string
	// LateReads is the number of later steps during which the kernel may still read its operands. It is for a kernel that only starts a
	// transfer, when another kernel waits for its end. The memory of the operands stays unchanged for as long, unless
	// CompileOptions.Liveness is liveness.Off.
	LateReads int
}

// AddOp adds a definition to a list, under its qualified name. It fails if the definition lacks a part, or if the list has that name.
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

// QualifiedName joins the domain and name of an ONNX operator. The domain ai.onnx becomes onnx.
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
	// Def is the definition of Name. It is nil in a graph that was read and not yet given the user's operators.
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

// A PanicError is a panic in a user's code: in the shape rule or the kernel of a custom operator. Its text ends with the stack, from where
// the panic was raised up to where rlxc called that code.
type PanicError struct {
	Op    string // name of the operator, with its domain
	Part  string // "shape rule" or "kernel"
	Value any    // argument of panic
	Stack string // a line for each call: "\n\tpackage.function (file:line)"
}

// Error implements error.
func (e *PanicError) Error() string {
	return fmt.Sprintf("the %s of custom operator %s panicked: %v%s", e.Part, e.Op, e.Value, e.Stack)
}

// Unwrap returns the value of the panic if it is an error, and nil otherwise.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// guard returns a panic of d's code as an error. It is deferred by the function that calls this code. A read beyond the end of a model's
// file that was truncated is left to the caller, as it is no fault of the user's code.
func (d *OpDef) guard(part string, err *error) {
	r := recover()
	if r == nil {
		return
	}
	if files.FaultError(r) != nil {
		panic(r)
	}
	*err = &PanicError{Op: d.Name, Part: part, Value: r, Stack: userStack()}
}

// userStack lists the calls between a panic and the method of this file that called the user's code, the innermost first.
func userStack() string {
	pcs := make([]uintptr, 64) // enough to find a mistake
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	var text strings.Builder
	panicked := false
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			panicked = true
		case !panicked, strings.HasPrefix(f.Function, "runtime."): // such as runtime.goPanicIndex
		case strings.HasPrefix(f.Function, callerOfUsers):
			return text.String()
		default:
			fmt.Fprintf(&text, "\n\t%s (%s:%d)", f.Function, f.File, f.Line)
		}
	}
	return text.String()
}

// callerOfUsers begins the names of the methods that call the user's code: Types and eval.
var callerOfUsers = reflect.TypeFor[OpDef]().PkgPath() + ".(*OpDef)."

// Types returns the types of the results by the shape rule. A panic in the shape rule is a *PanicError.
func (d *OpDef) Types(in []Type, attrs Attrs) (out []Type, err error) {
	defer d.guard("shape rule", &err)
	return d.Infer(in, attrs)
}

// eval computes the results by the kernel. A panic in the kernel is a *PanicError.
func (d *OpDef) eval(in []*tensor.Tensor, attrs Attrs) (out []*tensor.Tensor, err error) {
	defer d.guard("kernel", &err)
	return d.Eval(in, attrs)
}

// Eval computes the results of the node, which are the first ones of the kernel.
func (o Custom) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if o.Def == nil {
		return nil, fmt.Errorf("no custom operator %s is registered", o.Name)
	}
	out, err := o.Def.eval(in, o.Attrs)
	if err != nil {
		return nil, err
	}
	if len(out) < len(o.Types) {
		return nil, fmt.Errorf("the kernel of %s returns %d results, the node has %d", o.Name, len(out), len(o.Types))
	}
	return out[:len(o.Types)], nil
}

// SameTensors reports whether two ops that print equally have equal tensor parameters: Params omits the elements of large tensors.
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
