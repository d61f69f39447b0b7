package ir

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/rlxc/rlxc/tensor"
)

// MaxSize bounds what attributes may say of sizes, so that no product of a few of them overflows.
const MaxSize = 1 << 24

// A Window is what convolutions and pools move over the spatial axes of [N,C,…].
type Window struct {
	Kernel, Strides, Dilations []int
	Pads                       []int  // before each axis, then after each
	Auto                       string `ir:"auto_pad"` // NOTSET, VALID, SAME_UPPER, SAME_LOWER
	Ceil                       bool   // round the number of positions up
}

// Check reports a window that is none over that many spatial axes.
func (w Window) Check(axes int) error {
	if axes < 1 {
		return fmt.Errorf("the operand has no spatial axes: [N,C,…] is needed")
	}
	if len(w.Kernel) != axes || len(w.Strides) != axes || len(w.Dilations) != axes || len(w.Pads) != 2*axes {
		return fmt.Errorf("a window of %d sizes, %d strides, %d dilations and %d pads over %d axes", len(w.Kernel), len(w.Strides),
			len(w.Dilations), len(w.Pads), axes)
	}
	if !slices.Contains([]string{"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}, w.Auto) {
		return fmt.Errorf("auto_pad %q is not known", w.Auto)
	}
	for i := range axes {
		if w.Kernel[i] < 1 || w.Strides[i] < 1 || w.Dilations[i] < 1 || w.Pads[i] < 0 || w.Pads[axes+i] < 0 ||
			max(w.Kernel[i], w.Strides[i], w.Dilations[i], w.Pads[i], w.Pads[axes+i]) > MaxSize {
			return fmt.Errorf("axis %d: kernel %d, stride %d, dilation %d, padding %d and %d", i, w.Kernel[i], w.Strides[i],
				w.Dilations[i], w.Pads[i], w.Pads[axes+i])
		}
	}
	if w.Auto != "NOTSET" && slices.ContainsFunc(w.Pads, func(p int) bool { return p != 0 }) {
		return fmt.Errorf("attributes pads %v and auto_pad %s contradict each other", w.Pads, w.Auto)
	}
	return nil
}

// Fit checks the window for an operand [N,C,…], as Check does, and fails if the window is larger than the padded operand.
func (w Window) Fit(x Shape) error {
	if err := w.Check(len(x) - 2); err != nil {
		return err
	}
	for i, d := range x[2:] {
		pads := 0
		switch w.Auto {
		case "SAME_UPPER", "SAME_LOWER":
			continue
		case "NOTSET":
			pads = w.Pads[i] + w.Pads[len(w.Kernel)+i]
		}
		if LessEqual(N(w.Extent(i)), d.Add(N(pads))) == No {
			return fmt.Errorf("axis %d: a window of %d elements does not fit into %v and %d of padding", i, w.Extent(i), d, pads)
		}
	}
	return nil
}

// Covers checks that the spatial axes of weights are the window's.
func (w Window) Covers(weights Shape) error {
	for i, d := range weights {
		if k, ok := d.Const(); !ok || i >= len(w.Kernel) || k != w.Kernel[i] {
			return fmt.Errorf("weights with a kernel of %v", weights)
		}
	}
	return nil
}

// Extent is the number of elements from the first of a window to its last.
func (w Window) Extent(axis int) int { return (w.Kernel[axis]-1)*w.Dilations[axis] + 1 }

// Positions is the number of windows along an axis of size d, and its padding.
func (w Window) Positions(axis int, d Dim) (n, before, after Dim) {
	stride, extent, one := N(w.Strides[axis]), N(w.Extent(axis)), N(1)
	switch w.Auto {
	case "SAME_UPPER", "SAME_LOWER":
		n = d.CeilDiv(stride)
		pad := Max(n.Sub(one).Mul(stride).Add(extent).Sub(d), N(0))
		before = pad.Div(N(2))
		if w.Auto == "SAME_LOWER" {
			before = pad.Sub(before)
		}
		after = pad.Sub(before)
	default: // the pads of VALID are 0
		before, after = N(w.Pads[axis]), N(w.Pads[len(w.Kernel)+axis])
		room := d.Add(before).Add(after).Sub(extent)
		n = room.Div(stride).Add(one)
		if w.Ceil { // but no window begins after the last element
			n = Min(room.CeilDiv(stride).Add(one), d.Add(before).CeilDiv(stride))
		}
	}
	return Max(n, N(0)), before, after
}

// PoolPositions is Positions for a pool, which has a window that reaches beyond the padding where it does so by less than a stride and no
// other window fits: onnxruntime divides the room that a window has and rounds towards 0. Axes are at least one element long.
func (w Window) PoolPositions(axis int, d Dim) Dim {
	n, _, _ := w.Positions(axis, d)
	lack, stride := w.Lack(axis), w.Strides[axis]
	switch {
	case w.Ceil || lack < 1 || stride == 1:
		return n
	case lack < stride:
		return Max(n, N(1))
	}
	return Max(n, Min(N(1), d.Sub(N(1+lack)).CeilDiv(N(stride)).Add(N(1))))
}

// Lack is how many elements a window reaches beyond the padding around one element; none where padding follows the size.
func (w Window) Lack(axis int) int {
	if strings.HasPrefix(w.Auto, "SAME") {
		return 0
	}
	return w.Extent(axis) - 1 - w.Pads[axis] - w.Pads[len(w.Kernel)+axis]
}

// Result is the shape of the positions of the window over x, with that many channels.
func (w Window) Result(x Shape, channels Dim) Shape {
	s := Shape{x[0], channels}
	for i, d := range x[2:] {
		n, _, _ := w.Positions(i, d)
		s = append(s, n)
	}
	return s
}

// Taps is the number of elements of a window, or one that is too large.
func (w Window) Taps() int {
	n := 1
	for _, k := range w.Kernel {
		n = min(n*k, MaxSize)
	}
	return n
}

// Tiles reports whether windows are side by side without padding, as those of a patch embedding: every element is read at
// most once.
func (w Window) Tiles() bool {
	return slices.Equal(w.Kernel, w.Strides) && !slices.ContainsFunc(w.Dilations, func(d int) bool { return d != 1 }) &&
		!slices.ContainsFunc(w.Pads, func(p int) bool { return p != 0 }) && (w.Auto == "NOTSET" || w.Auto == "VALID")
}

// A Tap is an element of a window: which of the kernel, and the flat position below it in one channel, −1 in the padding.
type Tap struct{ Kernel, At int }

// Padding returns the number of padding elements before and after each spatial axis, where in has the
// spatial sizes of the operand.
func (w Window) Padding(in tensor.Shape) (before, after []int) {
	for i, d := range in {
		_, b, a := w.Positions(i, N(d))
		before, after = append(before, b.Int()), append(after, a.Int())
	}
	return before, after
}

// Walk moves the window over out positions of a padded channel of the spatial shape in. f must not keep the taps. Elements
// that are beyond even the padding are not taps.
func (w Window) Walk(env *Env, in, out tensor.Shape, before, after []int, f func(position int, taps []Tap)) {
	strides := in.Strides()
	var taps []Tap
	EachIndex(env, out, func(position int, o []int) {
		taps = taps[:0]
		EachIndex(env, w.Kernel, func(k int, e []int) {
			at := 0
			for i := range in {
				p := o[i]*w.Strides[i] - before[i] + e[i]*w.Dilations[i]
				switch {
				case p >= in[i]+after[i] || p < -before[i]:
					return
				case p < 0 || p >= in[i]:
					at = -1
				case at >= 0:
					at += p * strides[i]
				}
			}
			if len(taps) == cap(taps) { // padding is as wide as it says
				more := Make[Tap](env, max(16, 2*len(taps)))[:len(taps)]
				copy(more, taps)
				env.Give(int64(cap(taps)) * int64(unsafe.Sizeof(Tap{})))
				taps = more
			}
			taps = append(taps, Tap{k, at})
		})
		f(position, taps)
	})
}
