package wgpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// nBits sees a MatMulNBits node as a product.
func (d *Device) nBits(n *ir.Node) product {
	o := n.Op.(ir.MatMulNBits)
	p := product{Product: gpu.Product{M: n.Outputs[0].Type.Elements() / o.N, N: o.N, K: o.K}, half: d.half}
	w := bitMatrix{MatMulNBits: o}
	d.chooseTiling(&p, fmt.Sprintf("%d bits, blocks of %d", o.Bits, o.Block), func(l *tuner, q *product, _ bool) right {
		w.quantized, w.scales = l.constant("u32", o.K*w.cols()/w.perByte()), l.constant("vec4<f32>", 4*o.Blocks()*w.cols())
		return w.right(q)
	})
	return p
}

// matMulNBitsEntry multiplies by weights of a few bits, which stay so in memory: they become floats on the way into
// workgroup memory.
func (d *Device) matMulNBitsEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			for _, i := range []int{ir.NBitsWeights, ir.NBitsScales, ir.NBitsZeros} {
				if n.HasOperand(i) && !n.Inputs[i].IsConst() {
					return false
				}
			}
			return n.Inputs[ir.NBitsA].Type.DType == tensor.F32 && !n.HasOperand(ir.NBitsGroups)
		},
		InPlace: gpu.Writes(ir.NBitsResidual),
		Scratch: func(n *ir.Node) []int64 {
			p := d.nBits(n)
			sizes := p.scratch()
			if n.Op.(ir.MatMulNBits).Int8 {
				sizes = append(sizes, 4*int64(p.M)*int64(p.K))
			}
			return sizes
		},
		Arranges: func(_ *binder, n *ir.Node, i int) bool { return i >= ir.NBitsWeights && i <= ir.NBitsZeros },
		Bind:     bindNBits,
	}
}

func bindNBits(b *binder, n *ir.Node, in, out []*operand) ([]launch, error) {
	o, p := n.Op.(ir.MatMulNBits), b.d.nBits(n)
	w, err := b.bits(n, o)
	if err != nil {
		return nil, err
	}
	var launches []launch
	a := in[ir.NBitsA]
	if o.Int8 {
		rounded := b.scratchOperand(len(b.scratch) - 1)
		launches, a = append(launches, roundBlocks(o, a, rounded, p.M)), rounded
	}
	x := factor{operand: a, Factor: gpu.Factor{Row: p.K, Col: 1}}
	e := epilogue{scale: 1, act: ir.Unary{Fn: o.Act}, y: out[0], bias: ir.Operand(in, ir.NBitsBias),
		residual: ir.Operand(in, ir.NBitsResidual), cols: p.N}
	vector := x.vector() && p.K%4 == 0 && p.N%4 == 0 && e.vector()
	if ceil(p.M, p.tile.rows) > maxGroups {
		return nil, errOnHost
	}
	return append(launches, b.product(&p, &x, w.right(&p), &e, vector)...), nil
}

// A bitMatrix is a quantised matrix: row k has the quantised values of all columns, four of which are a vec4 of the product,
// with scales and perhaps zero points by blocks of rows. Columns are padded to whole words.
type bitMatrix struct {
	ir.MatMulNBits
	quantized, scales, zeros memory
}

func (w *bitMatrix) perByte() int { return 8 / w.Bits }

func (w *bitMatrix) cols() int { return pad(w.N, 4*w.perByte()) }

// bits brings a node's quantised matrix to the device.
func (b *binder) bits(n *ir.Node, o ir.MatMulNBits) (w bitMatrix, err error) {
	w.MatMulNBits = o
	perByte, blocks, cols, mask := w.perByte(), o.Blocks(), w.cols(), byte(1<<o.Bits-1)
	arranged := func(i int, word string, make func(t *tensor.Tensor) []byte) (memory, error) {
		t := n.Inputs[i].Const
		w, err := b.shared(t, "bits", nil, func() ([]byte, int) { return make(t.Aligned()), 1 })
		if err != nil {
			return memory{}, err
		}
		return memory{constant: w.pieces[0], word: word}, nil
	}
	// q returns quantised value i of a row of packed ones.
	q := func(row []byte, i int) byte { return row[i/perByte] >> (i % perByte * o.Bits) & mask }
	w.quantized, err = arranged(ir.NBitsWeights, "u32", func(t *tensor.Tensor) []byte {
		src, dst, width := t.Bytes(), make([]byte, o.K*cols/perByte), blocks*o.Block/perByte
		for j := range o.N {
			row := src[j*width:][:width]
			for k := range o.K {
				dst[(k*cols+j)/perByte] |= q(row, k) << (j % perByte * o.Bits)
			}
		}
		return dst
	})
	if err != nil {
		return w, err
	}
	// byBlock arranges what each block has one of, [N, blocks], as rows of columns.
	byBlock := func(i int, at func(t *tensor.Tensor, column, block int) float64) (memory, error) {
		return arranged(i, "vec4<f32>", func(t *tensor.Tensor) []byte {
			dst := make([]byte, 4*blocks*cols)
			for block := range blocks {
				for j := range o.N {
					binary.LittleEndian.PutUint32(dst[4*(block*cols+j):], math.Float32bits(float32(at(t, j, block))))
				}
			}
			return dst
		})
	}
	w.scales, err = byBlock(ir.NBitsScales, func(t *tensor.Tensor, j, block int) float64 { return t.Float64(j*blocks + block) })
	if err == nil && n.HasOperand(ir.NBitsZeros) {
		w.zeros, err = byBlock(ir.NBitsZeros, func(t *tensor.Tensor, j, block int) float64 {
			if t.DType() == tensor.U8 {
				return float64(q(t.Bytes()[j*ceil(blocks, perByte):], block))
			}
			return t.Float64(j*blocks + block)
		})
	}
	return w, err
}

// right is the matrix as an operand of a product.
func (w *bitMatrix) right(p *product) right {
	perByte, bits := w.perByte(), w.Bits
	return right{begin: func(s *shader, loads int) func(int, string) string {
		m, scales, width, across := s.bind(w.quantized), s.bind(w.scales), s.u(w.cols()/perByte/4), s.u(w.cols()/4)
		for l := range loads {
			s.put("let pb%d = b + min(n0 + bn%d, %s - 1u);", l, l, across)
		}
		s.put("const ones = vec4<u32>(1u, %du, %du, %du);", 1<<bits, 1<<(2*bits), 1<<(3*bits))
		return func(l int, k string) string {
			block := fmt.Sprintf("(%s) / %du * %s + pb%d", k, w.Block, across, l)
			zero := fmt.Sprintf("%d.0", 1<<(bits-1))
			if w.zeros.constant != nil {
				zero = fmt.Sprintf("%s[%s]", s.bind(w.zeros), block)
			}
			return fmt.Sprintf("%s((vec4<f32>(vec4<u32>(%s[(%s) * %s + pb%d / %du] >> (pb%d %% %du * %du)) / ones & vec4<u32>(%du)) - "+
				"%s) * %s[%s])",
				p.pack(), m, k, width, l, perByte, l, perByte, 4*bits, 1<<bits-1, zero, scales, block)
		}
	}}
}

// roundBlocks rounds the blocks of rows to 8 bits, an invocation each: to 127ths of the block's largest magnitude.
func roundBlocks(o ir.MatMulNBits, x, y *operand, rows int) launch {
	s := newShader("round_blocks", "f32", groupSize)
	blocks, k := s.u(o.Blocks()), s.u(o.K)
	total := rows * o.Blocks()
	s.put("let t = %s * %du + lid;\nif (t >= %s) { return; }", linear, groupSize, s.u(total))
	s.put("let row = t / %s * %s;\nlet first = row + t %% %s * %du;\nlet end = min(first + %du, row + %s);", blocks, k, blocks, o.Block,
		o.Block, k)
	in, first := s.bind(x.memory), s.u(x.first())
	s.put("var top = 0.0;\nfor (var i = first; i < end; i++) { top = max(top, abs(%s[%s + i])); }", in, first)
	s.put("let inverse = select(0.0, 127.0 / top, top > 0.0);")
	s.put("for (var i = first; i < end; i++) { %s[%s + i] = round(%s[%s + i] * inverse) * (top / 127.0); }", s.bind(y.memory),
		s.u(y.first()), in, first)
	return launch{s, spread(ceil(total, groupSize))}
}
