package wgpu

import (
	"fmt"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// sampleFolds are, by padding, the expressions that move a coordinate x outside of [lo, hi] of an axis of n elements.
var sampleFolds = map[string]string{
	"zeros":      "x",
	"border":     "clamp(x, 0.0, n - 1.0)",
	"reflection": "fold_(x, lo, hi)",
}

// sampleTaps are the number of neighbours by mode, where the first is below the coordinate, and the weight of the one at a distance.
var sampleTaps = map[string]struct {
	count  int
	first  string
	weight string
}{
	"nearest": {1, "0.0", "1.0"},
	"linear":  {2, "0.0", "1.0 - abs(d)"},
	"cubic":   {4, "1.0", "cubic_(abs(d))"},
}

// gridSampleEntry reads images between their elements: every element of the result separately.
var gridSampleEntry = entry{
	Supports: func(n *ir.Node) bool {
		return n.Inputs[0].Type.DType == tensor.F32 && n.Inputs[1].Type.DType == tensor.F32 &&
			len(n.Inputs[0].Type.Shape)-2 <= mostSpatial
	},
	Strided: target.AllStrides,
	Bind: func(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
		op, x, grid, y := n.Op.(ops.GridSample), in[0], in[1], out[0]
		axes := len(x.Shape) - 2
		return []launch{produce("grid_sample", y, elements[tensor.F32], func(s *shader, i string) (value, to string) {
			declareSample(s, op)
			channels := s.u(y.Shape[1])
			s.put("var rest = %s;\nvar g = %s;", i, s.u(grid.first()))
			for axis := axes - 1; axis >= 0; axis-- {
				size := s.u(y.Shape[2+axis])
				s.put("g += rest %% %s * %s;\nrest /= %s;", size, s.u(grid.Strides[1+axis]), size)
			}
			s.put("g += rest / %s * %s;", channels, s.u(grid.Strides[0]))
			s.put("let a0 = %s + rest / %s * %s + rest %% %s * %s;\nlet w0 = 1.0;\nvar sum = 0.0;", s.u(x.first()), channels,
				s.u(x.Strides[0]), channels, s.u(x.Strides[1]))
			taps := sampleTaps[op.Mode].count
			for axis := range axes {
				coordinate := elements[tensor.F32].load(s.bind(grid.memory),
					fmt.Sprintf("g + %du * %s", axes-1-axis, s.u(grid.Strides[1+axes])))
				s.put("let n%d = f32(%s);\nlet x%d = place_(%s, n%d);", axis, s.u(x.Shape[2+axis]), axis, coordinate, axis)
			}
			for axis := range axes {
				s.put("for (var k%[1]d = 0u; k%[1]d < %[2]du; k%[1]d++) {\nlet t%[1]d = tap_(x%[1]d, f32(k%[1]d), n%[1]d);\nif "+
					"(t%[1]d.x < 0.0) { continue; }", axis, taps)
				s.put("let a%d = a%d + u32(t%d.x) * %s;\nlet w%d = w%d * t%d.y;", axis+1, axis, axis, s.u(x.Strides[2+axis]), axis+1,
					axis, axis)
			}
			s.put("sum += w%d * %s;", axes, elements[tensor.F32].load(s.bind(x.memory), fmt.Sprintf("a%d", axes)))
			for range axes {
				s.put("}")
			}
			return "sum", s.u(y.first()) + " + " + i
		})}, nil
	},
}

// declareSample declares two functions. Function place_ returns the coordinate in an axis of n elements that c between −1 and 1 names.
// Function tap_ returns neighbour number k of a coordinate and its weight: −1 for one in a padding of zeros.
func declareSample(s *shader, op ops.GridSample) {
	s.use("is_nan", "fold_", "cubic_")
	lo, hi, at := "-0.5", "n - 0.5", "((c + 1.0) * n - 1.0) / 2.0"
	if op.Corners {
		lo, hi, at = "0.0", "n - 1.0", "(c + 1.0) / 2.0 * (n - 1.0)"
	}
	if op.Mode == "nearest" {
		at = "round(" + at + ")"
	}
	fold := sampleFolds[op.Padding]
	if op.Mode == "cubic" && op.Padding == "border" { // only the neighbours move
		fold = "x"
	}
	s.declare("fn place_(c: f32, n: f32) -> f32 {\nlet x = %s;\nlet lo = %s;\nlet hi = %s;\nif (x < lo || x > hi) { return %s; }\n"+
		"return x;\n}\n", at, lo, hi, fold)
	taps, beyond := sampleTaps[op.Mode], sampleFolds[op.Padding]
	switch op.Padding {
	case "zeros":
		beyond = "-1.0"
	case "reflection":
		beyond = "trunc(" + beyond + ")"
	}
	s.declare("fn tap_(c: f32, k: f32, n: f32) -> vec2<f32> {\nvar x = floor(c) - %s + k;\nlet d = c - x;\nlet lo = %s;\nlet hi = %s;",
		taps.first, lo, hi)
	s.declare("if (is_nan(x)) { return vec2<f32>(0.0, d); }\nif (x < 0.0 || x >= n) { x = %s; }\n", beyond)
	s.declare("return vec2<f32>(min(x, n - 1.0), %s);\n}\n", taps.weight)
}
