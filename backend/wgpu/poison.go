package wgpu

import (
	"encoding/binary"

	"github.com/rlxc/rlxc/internal/native"
)

// Poison makes every run fill the arena with a byte before it starts and each buffer when its life ends, on the device as
// on the host, so that a read of memory that the plan calls dead shows: 0xFF is a NaN in every float type, 0xA5 a wild
// index. 0 ends it. For tests.
func (m *arena) Poison(with byte) { m.poison = with }

// poisoner fills memory by dispatches between those of a run.
type poisoner struct {
	pipeline *native.Pipeline
	whole    []fill
	dies     [][]fill // by step
	done     int      // steps whose dead buffers are filled
}

// A fill is a range of a segment to fill.
type fill struct {
	group  *native.BindGroup
	groups [3]uint32
}

// poisonAll fills the segments before a run.
func (in *instance) poisonAll() error {
	if in.poison == nil {
		if err := in.makePoison(); err != nil {
			return err
		}
	}
	in.poison.done = 0
	if err := in.record(); err != nil {
		return err
	}
	for _, f := range in.poison.whole {
		in.encoder.Dispatch(in.poison.pipeline, f.group, f.groups)
	}
	return in.submit() // uploads must come after
}

// pass is called before the commands of a step: it fills what died at the steps before.
func (in *instance) pass(step int) error {
	if in.poison == nil || in.memory.poison == 0 || in.poison.done >= step {
		return nil
	}
	if err := in.record(); err != nil {
		return err
	}
	for ; in.poison.done < step; in.poison.done++ {
		for _, f := range in.poison.dies[in.poison.done] {
			in.encoder.Dispatch(in.poison.pipeline, f.group, f.groups)
		}
	}
	return nil
}

func (in *instance) makePoison() error {
	s := newShader("fill", "u32", groupSize)
	s.put("let t = %s * %du + lid;\nif (t < %s) { %s[%s + t] = %s; }", linear, groupSize, s.u(0), s.bind(memory{}), s.u(0), s.u(0))
	p := &poisoner{dies: make([][]fill, len(in.planned.Steps))}
	pipelines, err := in.d.compile([]*shader{s})
	if err != nil {
		return err
	}
	p.pipeline = pipelines[0]
	add := func(list *[]fill, segment int, off, size int64) error {
		words := int(size+3) / 4
		params, err := in.d.gpu.Buffer("the parameters", paramBytes, native.ForUniforms|native.CopyTarget)
		if err != nil {
			return err
		}
		block := make([]byte, paramBytes)
		for i, v := range []uint32{uint32(words), uint32(off / 4), uint32(in.memory.poison) * 0x01010101} {
			binary.LittleEndian.PutUint32(block[4*i:], v)
		}
		if err := params.Write(0, block); err != nil {
			return err
		}
		b := in.memory.segments[segment]
		g, err := in.d.gpu.Bind(p.pipeline, []native.Range{{Buffer: params, Size: paramBytes}, {Buffer: b, Size: b.Size}})
		*list = append(*list, fill{g, spread(ceil(words, groupSize))})
		return err
	}
	for i, b := range in.memory.segments {
		if err := add(&p.whole, i, 0, b.Size); err != nil {
			return err
		}
	}
	for k, b := range in.planned.Problem.Buffers {
		slot := in.planned.Plan.Slots[k]
		if b.Last-1 < len(p.dies) && slot.Arena >= 0 && slot.Size > 0 {
			if err := add(&p.dies[b.Last-1], slot.Arena, slot.Offset, slot.Size); err != nil {
				return err
			}
		}
	}
	in.poison = p
	return nil
}
