package cpu

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/target"
	"github.com/rlxc/rlxc/tensor"
)

// nBitsRow runs products with weights of 2 and 4 bits in blocks, which Prepare packs. Where a is rounded to 8 bits for each
// block, that comes first, and the product is float32's all the same.
func (d *Device) nBitsRow() row {
	return withHalf(row{
		Row: target.Row{
			Runs: target.OnKernel,
			Claims: func(n *ir.Node) bool {
				return n.Inputs[ir.NBitsA].Type.DType == tensor.F32 && nBitsPackable(n)
			},
			InPlace: func(n *ir.Node, i int) bool {
				return i == ir.NBitsResidual && n.Op.(ir.MatMulNBits).Act == ir.NoActivation // see kernel.GemmArgs
			},
			Scratch: func(n *ir.Node) []int64 {
				op, rows := n.Op.(ir.MatMulNBits), n.Outputs[0].Type.Sizes().Elements()/n.Op.(ir.MatMulNBits).N
				sizes := []int64{int64(d.Threads() * align(d.set.NewGemmQ4(rows, op.N, op.K, op.Block).ScratchBytes()))}
				if op.Int8 {
					sizes = append(sizes, int64(4*rows*op.K))
				}
				return sizes
			},
		},
		bind: bindNBits,
	})
}

// nBitsPackable reports whether the weights of n are in a form that Prepare packs, or packed.
func nBitsPackable(n *ir.Node) bool {
	op := n.Op.(ir.MatMulNBits)
	codes, scales, zeros := n.Inputs[ir.NBitsCodes], n.Inputs[ir.NBitsScales], ir.Operand(n.Inputs, ir.NBitsZeros)
	if codes.Packed != nil {
		return true
	}
	return codes.Const != nil && scales.Const != nil && op.Bits <= 4 && ir.Operand(n.Inputs, ir.NBitsGroups) == nil &&
		(zeros == nil || zeros.Const != nil && zeros.Type.DType == tensor.U8)
}

// packNBits packs the weights of products in blocks, and anew where a compiled file has them for another level of
// instructions.
func (d *Device) packNBits(g *ir.Graph, slab *tensor.Slab) (count int, err error) {
	for _, n := range g.Nodes {
		op, ok := n.Op.(ir.MatMulNBits)
		if !ok || d.target.Where(n) != target.OnKernel {
			continue
		}
		var zeros []byte
		if z := ir.Operand(n.Inputs, ir.NBitsZeros); z != nil {
			zeros = z.Const.Bytes()
		}
		w, p := n.Inputs[ir.NBitsCodes], d.set.NewPackQ4(op.K, op.N, op.Block)
		var src []byte
		switch {
		case w.Packed == nil && op.Bits == 2:
			src, zeros = fourBits(op, w.Const.Bytes(), zeros)
		case w.Packed == nil:
			src = w.Const.Bytes()
		case w.Packed.Layout == p.Layout() && w.Packed.Data != nil && len(w.Packed.Data.Bytes()) == p.Bytes():
			continue
		default:
			if src, err = unpackQ4(w.Packed, op); err != nil {
				return 0, n.Fail(fmt.Errorf("weight %q: %w", w.Name, err))
			}
			if op.Bits == 2 {
				_, zeros = fourBits(op, nil, zeros)
			}
		}
		scales := floatsOf(d.set, n.Inputs[ir.NBitsScales].Const)
		data := slab.Tensor(tensor.U8, p.Bytes())
		d.pool.Run(p.Parts(), func(part, _ int) { p.Run(part, data.Bytes(), src, scales, zeros) })
		v := g.NewValue(w.Name, w.Type)
		v.Packed = &ir.Packed{Layout: p.Layout(), Data: data}
		d.replace(g, n, ir.NBitsCodes, v)
		count++
	}
	return count, nil
}

// unpackQ4 gives the 4-bit codes of a packed matrix (kernel.PackQ4) as MatMulNBits has them, whatever level it was packed
// for.
func unpackQ4(p *ir.Packed, op ir.MatMulNBits) ([]byte, error) {
	blocks, half := op.Blocks(), op.Block/2
	width, vec, err := panels(p, "q4", blocks*(2+op.Block/8), op.N, 0)
	if err != nil {
		return nil, err
	}
	out, src := make([]byte, op.N*blocks*half), p.Data.Bytes()
	for first := 0; first < op.N; first += width {
		cols := min(width, op.N-first)
		row := (cols + vec - 1) / vec * vec
		for b := range blocks {
			size := row * (8 + half)
			codes := src[first*blocks*(8+half)+b*size+8*row:]
			for i := range half {
				for c := range cols {
					out[((first+c)*blocks+b)*half+i] = codes[i*row+c]
				}
			}
		}
	}
	return out, nil
}

// floatsOf gives constants of any float type as float32.
func floatsOf(set *kernel.Set, t *tensor.Tensor) []float32 {
	if isHalf(t.DType()) {
		return tensor.Of[float32](widenConst(set, t))
	}
	return tensor.Of[float32](t.Aligned())
}

// fourBits writes codes and zero points of 2 bits in 4.
func fourBits(op ir.MatMulNBits, codes, zeros []byte) (wideCodes, wideZeros []byte) {
	wideCodes = make([]byte, 2*len(codes))
	for i := range wideCodes {
		pair := codes[i/2] >> (4 * (i % 2))
		wideCodes[i] = pair&3 | pair>>2&3<<4
	}
	blocks := op.Blocks()
	from, to := (blocks*2+7)/8, (blocks+1)/2
	wideZeros = make([]byte, op.N*to)
	for n := range op.N {
		for b := range blocks {
			zero := byte(2)
			if zeros != nil {
				zero = zeros[n*from+b/4] >> (2 * (b % 4)) & 3
			}
			wideZeros[n*to+b/2] |= zero << (4 * (b % 2))
		}
	}
	return wideCodes, wideZeros
}

func bindNBits(b *binder, n *ir.Node) (step, error) {
	op := n.Op.(ir.MatMulNBits)
	in, out := b.operands(n)
	x, y := in[ir.NBitsA], out[0]
	rows := y.len() / op.N
	g := b.d.set.NewGemmQ4(rows, op.N, op.K, op.Block)
	packed := n.Inputs[ir.NBitsCodes].Packed
	if want := b.d.set.NewPackQ4(op.K, op.N, op.Block).Layout(); packed == nil || packed.Layout != want {
		return step{}, fmt.Errorf("the weight is not packed as %s, which this CPU level reads", want)
	}
	if rows == 0 {
		return step{}, nil
	}
	args := kernel.GemmArgs{ARow: op.K, ACol: 1, CRow: op.N, ResRow: op.N, Alpha: 1, Act: activations[op.Act]}
	var bias, residual operand
	if given(n, ir.NBitsBias) {
		bias = in[ir.NBitsBias]
	}
	if given(n, ir.NBitsResidual) {
		residual = in[ir.NBitsResidual]
	}
	scratch, each := b.scratchBytes(0), align(g.ScratchBytes())
	var phases []step
	if op.Int8 {
		rounded := b.scratchBytes(1).part(0, rows*op.K, tensor.F32)
		phases = append(phases, roundBlocks(op, rounded, x, rows))
		x = rounded
	}
	return inTurn(append(phases, step{parts: g.Parts(), run: func(m *machine, part, worker int) {
		a := args
		a.A, a.C, a.Bias, a.Residual = x.f32(m), y.f32(m), bias.f32(m), residual.f32(m)
		g.Run(part, &a, packed.Data.Bytes(), scratch.bytes(m)[worker*each:][:g.ScratchBytes()])
	}})...), nil
}

// roundBlocks rounds every block of x to 127ths of its largest magnitude.
func roundBlocks(op ir.MatMulNBits, to, x operand, rows int) step {
	parts, perPart := rowParts(rows, op.K)
	return step{parts: parts, run: func(m *machine, part, _ int) {
		dst, src := to.f32(m), x.f32(m)
		for r := part * perPart; r < min((part+1)*perPart, rows); r++ {
			for k := 0; k < op.K; k += op.Block {
				lo, hi := r*op.K+k, r*op.K+min(k+op.Block, op.K)
				roundBlock(dst[lo:hi], src[lo:hi])
			}
		}
	}}
}

func roundBlock(dst, src []float32) {
	var largest float32
	for _, v := range src {
		largest = max(largest, float32(math.Abs(float64(v))))
	}
	if largest == 0 {
		clear(dst)
		return
	}
	scale, inverse := largest/127, 127/largest
	// Adding and taking away 1.5·2^23 rounds to integers, ties to even.
	const magic = 3 << 22
	for i, v := range src {
		r := float32(v*inverse) + magic
		dst[i] = float32(r-magic) * scale
	}
}
