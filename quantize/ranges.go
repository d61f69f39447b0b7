package quantize

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/tensor"
)

// A Range is the smallest and largest number of an activation.
type Range struct{ Low, High float32 }

// Ranges maps the names of values to their ranges.
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

// A Calibrator measures the ranges of activations for QDQ. The zero value is ready to use.
type Calibrator struct{ seen map[string]*Range }

// Add extends the range of a value by its numbers in one run. It fails for NaN and infinity, which have no range.
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

// Ranges returns the ranges of all added values.
func (c *Calibrator) Ranges() Ranges {
	out := Ranges{}
	for name, r := range c.seen {
		out[name] = *r
	}
	return out
}
