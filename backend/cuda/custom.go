package cuda

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/rlxc/rlxc/internal/driver"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// Limits of the operands, results and attributes of a user's kernel, which customParams holds.
const (
	mostUserOperands = 8
	mostUserResults  = 4
	mostUserAttrs    = 8
)

// customParams is the parameter of users' kernels, as ir.OpDef describes it and prelude.cuh declares it.
type customParams struct {
	x      [mostUserOperands]address
	y      [mostUserResults]address
	countX [mostUserOperands]int64
	countY [mostUserResults]int64
	sizeX  [mostUserOperands][maxRank]int64
	sizeY  [mostUserResults][maxRank]int64
	attrs  [mostUserAttrs]float64
}

// prelude declares the parameter, and how elements of every type are read and written.
//
//go:embed prelude.cuh
var prelude string

// userEntry is the name of users' kernels.
const userEntry = "compute"

// A userKernel is the source of a kernel outside the archive, and what compiles it.
type userKernel struct {
	source  string
	compile func(c *driver.Context, name, source string) ([]byte, error)
}

// seen is how a user's CUDA C++ sees elements of a type, and what reads and writes them.
var seen = map[tensor.DType]struct{ as, in string }{
	tensor.F32: {"float", "float"}, tensor.F16: {"float", "Half"}, tensor.BF16: {"float", "BFloat16"}, tensor.F64: {"double", "double"},
	tensor.I64: {"long long", "long long"}, tensor.I32: {"int", "int"}, tensor.I16: {"int", "short"}, tensor.I8: {"int", "signed char"},
	tensor.U32: {"unsigned", "unsigned"}, tensor.U16: {"unsigned", "unsigned short"}, tensor.U8: {"unsigned", "unsigned char"},
	tensor.Bool: {"unsigned", "Bool"},
}

// customEntry runs the PTX or the CUDA C++ of a user's operator (ir.OpDef says what they see), a thread for each element of the
// first result.
var customEntry = entry{
	Supports: func(n *ir.Node) bool {
		def := n.Op.(ir.Custom).Def
		ok := def != nil && def.CUDA+def.PTX != "" && len(n.Inputs) <= mostUserOperands && len(n.Outputs) <= mostUserResults
		for i, v := range append(append([]*ir.Value{}, n.Inputs...), n.Outputs...) {
			if v == nil && i < len(n.Inputs) {
				continue
			}
			ok = ok && v.Type.Kind == ir.TensorType && seen[v.Type.DType].as != "" && len(v.Type.Shape) <= maxRank
		}
		return ok
	},
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
		op, p := n.Op.(ir.Custom), customParams{}
		describe := func(o *operand, at *address, count *int64, sizes *[maxRank]int64) {
			for i := range sizes {
				sizes[i] = 1
			}
			if o == nil {
				return
			}
			*at, *count = o.at, int64(o.Elements())
			for i, s := range o.Shape {
				sizes[i] = int64(s)
			}
		}
		for i, o := range in {
			describe(o, &p.x[i], &p.countX[i], &p.sizeX[i])
		}
		for i, o := range out {
			describe(o, &p.y[i], &p.countY[i], &p.sizeY[i])
		}
		k := &userKernel{op.Def.PTX, (*driver.Context).Compile}
		if k.source == "" {
			k = &userKernel{cudaSource(op, in, out), (*driver.Context).CompileCUDA}
		}
		attrs := 0
		for _, a := range op.Attrs {
			if v, ok := number(a.Value); ok && attrs < mostUserAttrs {
				p.attrs[attrs] = v
				attrs++
			}
		}
		l := newLaunch(op.Name+"\n"+k.source, p, line(ceil(out[0].Elements(), groupSize)), groupSize, 0)
		l.user = k
		return []*launch{l}, nil
	},
}

// number is the value of an attribute that is one.
func number(value any) (float64, bool) {
	switch v := value.(type) {
	case int64:
		return float64(v), true
	case float32:
		return float64(v), true
	}
	return 0, false
}

// cudaSource is the translation unit around a user's source.
func cudaSource(op ir.Custom, in, out []*operand) string {
	var s strings.Builder
	s.WriteString(prelude)
	s.WriteString("struct User {\nconst Op& op;\n")
	access := func(kind string, i int, o *operand) {
		name := fmt.Sprintf("%s%d", kind, i)
		e := seen[o.DType]
		if kind == "x" {
			fmt.Fprintf(&s, "%s %s(long long i) const { return (%s)load((const %s*)op.x[%d] + within(i, op.count_x[%d])); }\n", e.as,
				name, e.as, e.in, i, i)
		} else {
			fmt.Fprintf(&s, "void %s(long long i, %s v) const { if (i >= 0 && i < op.count_y[%d]) store((%s*)op.y[%d] + i, v); }\n", name,
				e.as, i, e.in, i)
		}
		fmt.Fprintf(&s, "long long %s_size(int axis) const { return axis >= 0 && axis < 8 ? op.size_%s[%d][axis] : 1; }\n", name, kind, i)
	}
	for i, o := range in {
		if o != nil {
			access("x", i, o)
		}
	}
	for i, o := range out {
		access("y", i, o)
	}
	for _, a := range op.Attrs {
		switch v := a.Value.(type) {
		case int64:
			fmt.Fprintf(&s, "static constexpr long long attr_%s = %dll;\n", a.Name, v)
		case float32:
			fmt.Fprintf(&s, "static constexpr float attr_%s = (float)%.9e;\n", a.Name, v)
		}
	}
	fmt.Fprintf(&s, "#line 1 %q\n%s\n};\n", op.Name, strings.TrimSpace(op.Def.CUDA))
	s.WriteString("extern \"C\" __global__ void __launch_bounds__(256) compute(const __grid_constant__ Op op) {\n" +
		"  long long i = blockIdx.x * 256ll + threadIdx.x;\n  if (i < op.count_y[0]) User{op}.compute(i);\n}\n")
	return s.String()
}
