package cuda

import (
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

var instructionNumbers = func() map[string]int32 {
	m := map[string]int32{}
	for i, name := range instructionNames {
		m[name] = int32(i)
	}
	return m
}()

// An instruction is one of the kernel each: a function of values, which are the operands and, from mostOperands on, the results
// of earlier instructions.
type instruction struct {
	op, kind, a, b, c, args int32
	alpha, beta             float32
}

// Limits of an expression, which eachParams holds.
const (
	mostOperands     = 8
	mostInstructions = 32
)

// eachParams is Each in _gen/each.cu.
type eachParams struct {
	count, rank, operands, instructions int32
	size                                [maxRank]int32
	y                                   walk
	x                                   [mostOperands]walk
	code                                [mostInstructions]instruction
}

// An expression is a program of the kernel each in the making.
type expression struct{ code []instruction }

// A term is a value of it.
type term struct {
	value int32
	dtype tensor.DType
}

// put appends an instruction, and returns its result.
func (e *expression) put(name string, result tensor.DType, alpha, beta float32, args ...term) term {
	q := instruction{op: instructionNumbers[name], kind: kinds[result], args: int32(len(args)), alpha: alpha, beta: beta}
	for i, to := range []*int32{&q.a, &q.b, &q.c} {
		if i < len(args) {
			*to = args[i].value
		}
	}
	e.code = append(e.code, q)
	return term{mostOperands + int32(len(e.code)) - 1, result}
}

// isWhole reports whether the kernel computes with the type as int64.
func isWhole(d tensor.DType) bool {
	return d == tensor.Bool || d.IsInt() && d.Size() > 0 && d.Bits() == 8*d.Size() && d != tensor.U64
}

// wholeFunctions are the functions of whole numbers, by the names that the IR has for the functions.
var wholeFunctions = map[string]string{
	"neg": "int_neg", "abs": "int_abs", "sign": "int_sign", "relu": "int_relu", "bitwise_not": "int_not",
	"add": "int_add", "sub": "int_sub", "mul": "int_mul", "div": "int_div", "mod": "int_mod", "fmod": "int_fmod", "max": "int_max",
	"min":         "int_min",
	"bitwise_and": "int_and", "bitwise_or": "int_or", "bitwise_xor": "int_xor", "and": "int_and", "or": "int_or", "xor": "int_xor",
	"equal": "int_equal", "less": "int_less", "less_or_equal": "int_less_or_equal", "greater": "int_greater",
	"greater_or_equal": "int_greater_or_equal",
	"not":              "not",
}

// function finds the instruction of a unary or binary op on elements of a type.
func function(op ir.Op, d tensor.DType) (string, bool) {
	name := ir.OpName(op)
	if isFloat(d) {
		i, ok := instructionNumbers[name]
		return name, ok && i < instructionNumbers["narrow"]
	}
	if !isWhole(d) || d == tensor.Bool && name == "relu" {
		return "", false
	}
	name, ok := wholeFunctions[name]
	return name, ok
}

// add appends an op, and reports whether the kernel has what it takes. Absent operands have no type.
func (e *expression) add(op ir.Op, args []term, result tensor.DType) (term, bool) {
	if _, known := kinds[result]; !known || result == tensor.F64 {
		return term{}, false
	}
	switch o := op.(type) {
	case ir.Unary:
		name, ok := function(op, args[0].dtype)
		return e.put(name, result, o.Alpha, o.Beta, args...), ok
	case ir.Binary:
		if o.Fn == ir.Pow && isWhole(args[1].dtype) {
			args = []term{args[0], e.put("int_to_float", tensor.F32, 0, 0, args[1])}
		}
		name, ok := function(op, args[0].dtype)
		return e.put(name, result, 0, 0, args...), ok && isFloat(args[0].dtype) == isFloat(args[1].dtype)
	case ir.Where:
		return e.put("select", result, 0, 0, args...), true
	case ir.Clip:
		x := args[0]
		for i, fn := range []ir.BinaryFn{ir.MaxFn, ir.MinFn} {
			if i+1 < len(args) && args[i+1].dtype != tensor.Invalid {
				name, ok := function(ir.Binary{Fn: fn}, x.dtype)
				if x = e.put(name, result, 0, 0, x, args[i+1]); !ok {
					return term{}, false
				}
			}
		}
		if x == args[0] {
			x = e.put("int_wrap", tensor.I64, 0, 0, x)
		}
		return x, true
	case ir.Cast:
		name, ok := castOf(args[0].dtype, o.To)
		kind := result
		if name == "int_wrap" && isFloat(o.To) { // all bits pass
			kind = tensor.I64
		}
		x := e.put(name, kind, 0, 0, args...)
		x.dtype = result
		return x, ok
	case ir.Map:
		return e.addMap(o, args)
	}
	return term{}, false
}

// castOf names the instruction that converts between types.
func castOf(from, to tensor.DType) (string, bool) {
	switch {
	case isFloat(from) && to == tensor.Bool:
		return "to_bool", true
	case isFloat(from) && isFloat(to) && target.IsHalf(to):
		return "narrow", true
	case isFloat(from) && isFloat(to):
		return "int_wrap", true
	case isFloat(from) && isWhole(to):
		return "to_int", to != tensor.U32
	case isWhole(from) && to == tensor.Bool:
		return "int_to_bool", true
	case isWhole(from) && isFloat(to):
		return "int_to_float", true
	case isWhole(from) && isWhole(to):
		return "int_wrap", true
	}
	return "", false
}

// expressionOf makes the program of an elementwise node.
func expressionOf(n *ir.Node) (*expression, bool) {
	if len(n.Inputs) > mostOperands {
		return nil, false
	}
	e, args := &expression{}, make([]term, len(n.Inputs))
	for i, v := range n.Inputs {
		args[i].value = int32(i)
		if v == nil {
			continue
		}
		if args[i].dtype = v.Type.DType; !isFloat(args[i].dtype) && !isWhole(args[i].dtype) {
			return nil, false
		}
	}
	_, ok := e.add(n.Op, args, n.Outputs[0].Type.DType)
	return e, ok && len(e.code) <= mostInstructions
}

// elementwiseEntry runs all elementwise ops.
var elementwiseEntry = entry{
	Supports: func(n *ir.Node) bool {
		_, ok := expressionOf(n)
		return ok
	},
	Strided: target.AllStrides,
	InPlace: func(n *ir.Node, i int) bool { return n.Inputs[i].Type.DType.Size() == n.Outputs[0].Type.DType.Size() },
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		if w := widen(n, in[0], out[0]); w != nil {
			return []*launch{w}, nil
		}
		e, _ := expressionOf(n)
		x, err := each(out[0], in, e.code)
		return []*launch{x}, err
	},
}

// widenParams is Widen in _gen/rows.cu.
type widenParams struct {
	x, y  address
	fours int64
}

// widen is the launch of a cast of 16-bit floats that are together to float32, nil for other nodes.
func widen(n *ir.Node, x, y *operand) *launch {
	op, ok := n.Op.(ir.Cast)
	if !ok || op.To != tensor.F32 || !target.IsHalf(x.DType) || !x.Contiguous() || !fours(y.Elements(), x, y) {
		return nil
	}
	p := widenParams{x.at, y.at, int64(y.Elements() / 4)}
	return perElement("widen_"+floats[x.DType], p, int(p.fours))
}

// each is the launch that computes y by an expression of operands, some of which may be nil.
func each(y *operand, xs []*operand, code []instruction) (*launch, error) {
	walked := []*operand{y}
	for _, x := range xs {
		if x != nil {
			walked = append(walked, x)
		}
	}
	nest, err := newNest(y.Shape, walked...)
	if err != nil {
		return nil, err
	}
	p := eachParams{count: int32(y.Elements()), rank: nest.rank, operands: int32(len(xs)), instructions: int32(len(code)),
		size: nest.size, y: nest.walks[0]}
	copy(p.code[:], code)
	rest := nest.walks[1:]
	for i, x := range xs {
		if p.x[i] = nest.walks[0]; x != nil { // the kernel does not read an absent operand
			p.x[i], rest = rest[0], rest[1:]
		}
	}
	return perElement("each", p, y.Elements()), nil
}

// groupSize is the number of threads of blocks that go element by element.
const groupSize = 256
