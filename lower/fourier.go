package lower

import (
	"math"
	"math/bits"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/ops"
	"github.com/rlxc/rlxc/tensor"
)

// Fourier transforms. Complex tensors are real ones with a last axis of 2.
var fourierRows = []row{
	{"DFT", 17, lowerDFT},
	{"DFT", 20, lowerDFT},
	{"STFT", 17, lowerSTFT},
	{"MelWeightMatrix", 17, lowerMelWeightMatrix},
}

func lowerDFT(c *Context) []*ir.Value {
	x := c.In(0).Type
	rank := len(x.Shape)
	axis := 1
	if c.Version() < 20 {
		axis = c.AttrInt("axis", 1)
	} else if axis = -2; c.Opt(2) != nil {
		axis = int(c.number(2))
	}
	if axis = c.Axis(axis, rank); axis == rank-1 {
		c.Failf("axis %d holds the parts of complex numbers", axis)
	}
	_, ok := x.Shape[rank-1].Const()
	if !ok {
		panic(needsRun{0})
	}
	inverse, onesided := c.AttrBool("inverse", false), c.AttrBool("onesided", false)
	n := x.Shape[axis]
	switch {
	case c.Opt(1) != nil:
		if n, ok = wholeNumber(c.In(1)); !ok {
			n = ir.N(int(c.number(1)))
		}
	case inverse && onesided:
		n = n.Sub(ir.N(1)).Mul(ir.N(2))
	}
	return c.keep(ops.DFT{Axis: axis, Length: n, Inverse: inverse, OneSided: onesided}, c.In(0))
}

func lowerSTFT(c *Context) []*ir.Value {
	x, window := c.In(0), c.Opt(2)
	if Rank(x) == 2 { // of real numbers, whose axis onnxruntime lets models leave out
		x = c.reshape(x, append(slices.Clone(x.Type.Shape), ir.N(1)))
	}
	if Rank(x) != 3 {
		c.Failf("signal %v", x.Type)
	}
	op := ops.STFT{Step: int(c.number(1)), OneSided: c.AttrBool("onesided", true)}
	length := x.Type.Shape[1]
	switch {
	case c.Opt(3) != nil:
		length = ir.N(int(c.number(3)))
	case window != nil:
		if Rank(window) != 1 {
			c.Failf("window %v", window.Type)
		}
		length = window.Type.Shape[0]
	}
	var ok bool
	if op.Length, ok = length.Const(); !ok {
		panic(needsRun{0})
	}
	return c.keep(op, x, window)
}

// maxMelBits bounds the bands and bins of a matrix that compilation computes: together 2^22 elements at least, 2^24 at most.
const maxMelBits = 24

// lowerMelWeightMatrix returns the matrix from the bins of a spectrum to bands evenly spaced in mel.
func lowerMelWeightMatrix(c *Context) []*ir.Value {
	bands, length, rate := int(c.number(0)), int(c.number(1)), c.number(2)
	low, high := c.number(3), c.number(4)
	to := tensor.DType(c.AttrInt("output_datatype", int(tensor.F32)))
	if bands < 1 || length < 1 || bits.Len(uint(bands))+bits.Len(uint(length)) > maxMelBits || !(rate > 0) || !(low >= 0) || !(high >= low) || !to.Valid() || to == tensor.String {
		c.Failf("%d bands of %d bins at %v Hz from %v to %v", bands, length, rate, low, high)
	}
	bins := length/2 + 1
	mel := func(f float64) float64 { return 2595 * math.Log10(1+f/700) }
	step := (mel(high) - mel(low)) / float64(bands+2)
	edges := make([]int, bands+2)
	for i := range edges {
		f := 700 * (math.Pow(10, (mel(low)+float64(i)*step)/2595) - 1)
		if edges[i] = int(math.Floor(float64(length+1) * f / rate)); edges[i] < 0 || edges[i] >= bins {
			c.Failf("band %d begins at bin %d of %d", i, edges[i], bins)
		}
	}
	y := tensor.New(to, bins, bands)
	for i := range bands {
		left, centre, right := edges[i], edges[i+1], edges[i+2]
		if left == centre {
			y.SetFloat64(centre*bands+i, 1)
		}
		for k := left; k <= centre && left < centre; k++ {
			y.SetFloat64(k*bands+i, float64(k-left)/float64(centre-left))
		}
		for k := centre; k < right; k++ {
			y.SetFloat64(k*bands+i, float64(right-k)/float64(right-centre))
		}
	}
	return []*ir.Value{c.Constant(y)}
}
