package gpu

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A model may be larger than the memory of the device. The weights that do not fit stay on the host. Before a step that reads some of
// them, they are copied to the stream, a segment behind the arenas of the plan. Each step has the whole stream, which is as large as the
// step with the most such bytes needs.

// streamAlign is the alignment of weights in the stream in bytes: what bindings of every WebGPU device need.
const streamAlign = 256

// leastStreamed is the size in bytes below which a weight is always on the device. Biases and scales are as small, and starting a copy
// takes longer than copying them.
const leastStreamed = 4 << 10

// Weights decides which constants of a device's programs stay on the host, and must be copied to the stream before each step of the plan
// that reads them. Each session has a stream, and Weights counts one. The device's lock guards Weights and its methods.
type Weights struct {
	Limit    int64                   // maximum bytes of the constants on the device and of one stream; 0 for no limit
	resident int64                   // bytes of the constants on the device
	stream   int64                   // bytes of a stream: those of the step that reads the most bytes from it
	streamed map[*tensor.Tensor]bool // whether a constant stays on the host; keys are what identity returned to Add
}

// OnHost reports whether a constant stays on the host.
func (w *Weights) OnHost(t *tensor.Tensor) bool { return w.streamed[t] }

// Add adds the constants of a graph, and decides for each that it has not seen before whether it stays on the host. The decision does not
// change later. size returns the bytes of a constant on the device. Constants for which identity returns the same tensor are one. Add fails
// with a memory.Error if the limit is too low for each choice that it tries; the Weights are of no use then.
//
// Add tries the new constants in ascending order of their sizes: the smallest alone on the host, then the two smallest, and so on. With
// each, the stream may have to grow, to the bytes that the step with the most bytes of such constants reads. Add stops where enough memory
// is saved. Larger constants are not tried then, because a larger stream takes memory from the constants that stay on the device. Of those
// tried, only as many stay on the host as are needed, the largest first.
//
// Example: a limit of 96 KiB for constants of 64, 16, 16 and 8 KiB, 104 in all, read by one step each. With the 8 KiB on the host, 96 are
// on the device and a stream of 8: too much. With 16 more, 80 are there and a stream of 16, which fits: 16 and 8 stay on the host.
func (w *Weights) Add(g *ir.Graph, size func(*tensor.Tensor) int64, identity func(*tensor.Tensor) *tensor.Tensor) error {
	if w.streamed == nil {
		w.streamed = map[*tensor.Tensor]bool{}
	}
	var list []*tensor.Tensor
	bytes := map[*tensor.Tensor]int64{}
	readers := map[*tensor.Tensor]map[*ir.Node]bool{}
	for _, v := range g.Consts() {
		if v.Const == nil || v.Const.DType() == tensor.String {
			continue
		}
		t := identity(v.Const)
		if _, known := w.streamed[t]; known && bytes[t] == 0 {
			continue // an earlier graph has it
		}
		if bytes[t] == 0 {
			w.streamed[t], list = false, append(list, t)
			bytes[t], readers[t] = align(max(size(t), 1), streamAlign), map[*ir.Node]bool{}
			w.resident += bytes[t]
		}
		for _, u := range v.Uses {
			readers[t][u.Node] = true
		}
	}
	if w.Limit == 0 || w.resident+w.stream <= w.Limit {
		return nil
	}
	slices.SortStableFunc(list, func(a, b *tensor.Tensor) int { return cmp.Compare(bytes[a], bytes[b]) })
	list = slices.DeleteFunc(list, func(t *tensor.Tensor) bool { return bytes[t] < leastStreamed })
	least, onHost, perStep, stream := w.resident+w.stream, int64(0), map[*ir.Node]int64{}, w.stream
	for i, t := range list {
		onHost += bytes[t]
		for n := range readers[t] {
			perStep[n] += bytes[t]
			stream = max(stream, perStep[n])
		}
		need := w.resident + stream - w.Limit
		if least = min(least, w.resident+stream-onHost); onHost < need {
			continue
		}
		w.stream = stream
		for ; need > 0; i-- { // the largest first, which are the fewest copies
			w.streamed[list[i]] = true
			w.resident, need = w.resident-bytes[list[i]], need-bytes[list[i]]
		}
		return nil
	}
	return fmt.Errorf("weights on the device: %w: raise DeviceWeights (--device-weights)", &memory.Error{Need: least, Limit: w.Limit})
}
