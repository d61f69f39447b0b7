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

// Weights decides which constants of a device's programs stay on the host. The device's lock guards it.
type Weights struct {
	Limit    int64                   // bytes of constants and of one stream on the device; 0 for no limit
	resident int64                   // bytes of the constants on the device
	stream   int64                   // bytes of the stream
	streamed map[*tensor.Tensor]bool // whether each constant that was added stays on the host
}

// OnHost reports whether a constant stays on the host.
func (w *Weights) OnHost(t *tensor.Tensor) bool { return w.streamed[t] }

// Add adds the constants of a graph, and decides which stay on the host. size returns the bytes of a constant on the device. Constants for
// which identity returns the same tensor are one. Add fails if the limit is too low whatever stays on the host.
//
// For each size, Add computes what is on the device if only constants up to this size may stay on the host. The stream is then as large as
// the step with the most of them. Add takes the first size at which that fits, since the smallest stream leaves most memory to the others.
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
