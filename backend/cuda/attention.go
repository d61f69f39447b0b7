package cuda

import (
	"fmt"
	"strings"

	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// attentionParams is Attention in _gen/attention.cu.
type attentionParams struct {
	q, k, v, mask, y                                  address
	qs, ks, vs                                        [3]int64
	qd, kd, vd                                        int64
	ms                                                [4]int64
	batch, queries, keys, heads, groups, size, values int32
	maskKind, kind, causal, offset, window, guard     int32
	scale, cap                                        float32
}

// A block of the kernel for all heads has that many queries, and that many keys at a time.
const (
	attentionRows = 16
	attentionKeys = 32
)

// flashRows is the number of queries of a block of the kernels for heads of certain sizes.
const flashRows = 64

// flashes reports whether the kernels for heads of certain sizes take these operands: their elements are together.
func (d *Device) flashes(p *attentionParams, unit string, operands ...*operand) bool {
	ok := p.size == p.values && (p.size == 32 || p.size == 64 || p.size == 128)
	for _, o := range operands {
		ok = ok && (o.DType == tensor.F32 || d.ctx.Capability() >= 80) && o.Strides[3] == 1 && o.aligned(16)
		for _, s := range o.Strides[:3] {
			ok = ok && s*o.Width%16 == 0
		}
	}
	return ok && flashShared(unit, int(p.size), true)+declaredShared <= d.ctx.SharedPerBlock
}

// attentionUnit is what names of kernels have for the type in which attention computes, and for wgmma, of which few keys leave half idle.
// Heads of 128 leave tf32 too few registers.
func (d *Device) attentionUnit(p *attentionParams, dtype tensor.DType, packed bool) string {
	switch {
	case dtype != tensor.F32 && d.ctx.Major == 9 && (packed || p.keys > 64 || p.size == 128):
		return "wgmma_" + floats[dtype]
	case dtype == tensor.F32 && d.precision == tensor.TF32 && p.size < 128:
		return unitTF32
	}
	return floats[dtype]
}

// flashKeys is the number of keys at a time.
func flashKeys(unit string, size int) int {
	if strings.HasPrefix(unit, "wgmma") && size < 128 {
		return 128
	}
	return 64
}

// flashShared is the shared memory of a block of these kernels, in bytes: queries and a tile each of keys and values, or two where there
// may be more, or in float32 queries, keys and weights, by columns of four more than their rows, and values.
func flashShared(unit string, size int, more bool) int {
	width, tiles := 2, 2
	switch {
	case unit == "f32":
		return 4 * ((2*size+flashRows)*(flashRows+4) + flashRows*size)
	case unit == unitTF32:
		width = 4
	}
	if more {
		tiles = 4
	}
	return width * size * (flashRows + tiles*flashKeys(unit, size))
}

// attentionShared is the shared memory of a block, in bytes.
func attentionShared(size, values int) int {
	return 4 * (attentionRows*(size+1) + attentionKeys*(size+1) + attentionKeys*(values+1) + attentionRows*attentionKeys +
		attentionRows*(values+1))
}

func (d *Device) attentionEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			q, v := n.Inputs[ir.AttentionQ].Type, n.Inputs[ir.AttentionV].Type
			size, ok1 := q.Shape[3].Const()
			values, ok2 := v.Shape[3].Const()
			return isFloat(q.DType) && ok1 && ok2 && attentionShared(size, values)+declaredShared <= d.ctx.SharedPerBlock
		},
		Strided: gpu.StridedAttention,
		Bind:    bindAttention,
	}
}

// steps returns the operand's stride along each axis of a shape, and 0 along the axes where the operand is broadcast.
func (o *operand) steps(shape tensor.Shape) (out [4]int64) {
	for i := range o.Shape {
		if o.Shape[i] != 1 {
			out[len(shape)-len(o.Shape)+i] = int64(o.Strides[i])
		}
	}
	return out
}

func bindAttention(b *binder, n *ir.Node, in, out []*operand) ([]*launch, error) {
	op := n.Op.(ir.Attention)
	q, k, v, mask, y := in[ir.AttentionQ], in[ir.AttentionK], in[ir.AttentionV], ir.Operand(in, ir.AttentionMask), out[0]
	p := attentionParams{q: q.at, k: k.at, v: v.at, mask: mask.pointer(), y: y.at, qd: int64(q.Strides[3]), kd: int64(k.Strides[3]),
		vd:    int64(v.Strides[3]),
		batch: int32(q.Shape[0]), queries: int32(q.Shape[1]), heads: int32(q.Shape[2]), size: int32(q.Shape[3]), keys: int32(k.Shape[1]),
		groups: int32(k.Shape[2]),
		values: int32(v.Shape[3]), kind: kinds[q.DType], causal: boolean(op.Causal), offset: boolean(op.Offset), window: int32(op.Window),
		guard: boolean(op.NaNGuard),
		scale: op.Scale, cap: op.Softcap}
	for i := range 3 {
		p.qs[i], p.ks[i], p.vs[i] = int64(q.Strides[i]), int64(k.Strides[i]), int64(v.Strides[i])
	}
	list := ir.Operand(in, ir.AttentionSequences)
	if mask != nil {
		to := tensor.Shape{q.Shape[0], q.Shape[2], q.Shape[1], k.Shape[1]}
		if list != nil { // its first axis is of sequences, and its last two are of positions
			to = append(tensor.Shape{list.Shape[0], q.Shape[2], 1, 1}[:4-min(2, len(mask.Shape))],
				mask.Shape[max(0, len(mask.Shape)-2):]...)
		}
		p.ms, p.maskKind = mask.steps(to), kinds[mask.DType]
	}
	if max(q.Shape[0], q.Shape[2]) > 65535 {
		return nil, errOnHost
	}
	name, general := "", p.causal != 0 || p.window > 0 || p.cap != 0 || p.ms[2] != 0
	var packed *packedAttentionParams
	if list != nil {
		if packed = b.packedAttention(p, in); packed == nil {
			return nil, errOnHost
		}
		name, general = "_rows", general || mask != nil
	}
	grid, shared := [3]int{ceil(q.Shape[1], flashRows), q.Shape[2], q.Shape[0]}, 0
	if unit := b.d.attentionUnit(&p, q.DType, packed != nil); b.d.flashes(&p, unit, q, k, v) && !packed.relative() {
		if general {
			name += "_general"
		}
		more := packed != nil || k.Shape[1] > flashKeys(unit, q.Shape[3])
		name, shared = fmt.Sprintf("flash_%s_%d%s", unit, p.size, name), flashShared(unit, q.Shape[3], more)
	} else {
		grid[0] = ceil(q.Shape[1], attentionRows)
		name, shared = "attention_"+floats[q.DType]+name, attentionShared(q.Shape[3], v.Shape[3])
	}
	if packed != nil {
		return []*launch{newLaunch(name, *packed, grid, 128, shared)}, nil
	}
	return []*launch{newLaunch(name, p, grid, 128, shared)}, nil
}
