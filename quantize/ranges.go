package quantize

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/tensor"
)

// A Range is what an activation's numbers are rounded within.
type Range struct{ Low, High float32 }

// Ranges are those of values by name.
type Ranges map[string]Range

// scaling is the scale and zero point of uint8 values for a range. The range of ONNX's quantisation includes 0.
func (r Range) scaling() (scale float32, zero uint8) {
	low, high := min(float64(r.Low), 0), max(float64(r.High), 0)
	s := float32((high - low) / 255)
	if s < smallestNormal {
		return 1, 0
	}
	return s, uint8(min(max(math.RoundToEven(-low/float64(s)), 0), 255))
}

// A Calibrator gathers what QDQ needs to know of activations. The zero value is ready to use.
type Calibrator struct{ seen map[string]*Range }

// Add looks at a value of one run. NaN and infinity are errors: nothing can be rounded within them.
func (c *Calibrator) Add(name string, t *tensor.Tensor) error {
	if t.DType() != tensor.F32 {
		return nil // no product of it is rewritten
	}
	if c.seen == nil {
		c.seen = map[string]*Range{}
	}
	r := c.seen[name]
	if r == nil {
		r = &Range{}
		c.seen[name] = r
	}
	for _, v := range tensor.Of[float32](t) {
		if v-v != 0 {
			return fmt.Errorf("value %q holds %v: its range cannot be calibrated", name, v)
		}
		r.Low, r.High = min(r.Low, v), max(r.High, v)
	}
	return nil
}

// Ranges returns the ranges of all that was seen.
func (c *Calibrator) Ranges() Ranges {
	out := Ranges{}
	for name, r := range c.seen {
		out[name] = *r
	}
	return out
}
