package programs

import (
	"math"
	"math/rand/v2"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// chainFactors are the constants of chains. Two of them may overflow or vanish where the two and a third would not.
var chainFactors = []float64{1e10, 1e-10, 1e20, 1e-20, 1e30, 1e-30, 2, 0.5, -3}

// Chain makes the program of a seed that multiplies and divides by constants, so that results overflow and vanish on the way. want has
// its output: engines that keep overflow where the model has it return the same infinities, zeros and NaN. Other elements may be off by
// roundings. Elements that pass through numbers below the normal ones, where a rounding loses digits, may be anything.
func Chain(seed uint64) (p *Program, want *Analysis, err error) {
	main := &onnxpb.GraphProto{Name: "program"}
	n := &generator{Rand: rand.New(rand.NewPCG(seed, 0xc4a1)), opset: 17, g: main, main: main, inputs: map[string]*input{}}
	t := tensor.New(tensor.F32, 4, 4)
	for i := range t.Len() {
		t.SetFloat64(i, []float64{0, 1, -1, 1e10, 1e-10, 1e20, 1e-20, 1e30, 1e-30}[n.IntN(9)]*float64(1+n.IntN(3)))
	}
	x := n.input(t, style{})
	off := make([]float64, t.Len())
	for range 2 + n.IntN(5) {
		c := tensor.New(tensor.F32, [][]int{nil, {1}, {4}}[n.IntN(3)]...)
		factor := chainFactors[n.IntN(len(chainFactors))]
		for i := range c.Len() {
			c.SetFloat64(i, factor)
		}
		switch y := n.constant(c); n.IntN(7) {
		case 0, 1, 2:
			x = n.node("Mul", []*value{x, y})
		case 3:
			x = n.node("Mul", []*value{y, x})
		case 4, 5:
			x = n.node("Div", []*value{x, y})
		case 6:
			x = n.node("Neg", []*value{x})
		}
		if x == nil {
			return nil, nil, n.refused
		}
		for i := range off {
			if v := math.Abs(x.t.Float64(i)); v != 0 && v < 0x1p-126 {
				off[i] = math.Inf(1)
			}
		}
	}
	for i := range off {
		if v := math.Abs(x.t.Float64(i)); v <= math.MaxFloat32 {
			off[i] = max(off[i], 1e-5*v)
		}
	}
	n.outputs()
	main.Output = main.Output[len(main.Output)-1:]
	p = &Program{&onnxpb.ModelProto{IrVersion: irVersion(n.opset), Graph: main, OpsetImport: n.opsets()},
		[]map[string]*tensor.Tensor{{main.Input[0].Name: t}}}
	return p, &Analysis{Outputs: []Result{{x.t, off}}}, nil
}
