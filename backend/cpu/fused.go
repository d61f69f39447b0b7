package cpu

import (
	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func (d *processor) mapEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			o := n.Op.(ir.Map)
			types, err := o.Expr.Types(n.Inputs)
			if err != nil || len(n.Inputs)+len(o.Expr) > mapRegisters || len(loopOperands(n)) >= maxOperands {
				return false
			}
			for i, x := range o.Expr {
				if x.Op.Kind() == ir.KindQuantize && !isScale(n, x.Args[1]) ||
					blockFor(d.set, x, argTypes(n, x, types), types[i].DType) == nil {
					return false
				}
			}
			return true
		},
		Shares:  always,
		Strided: target.AllStrides,
		InPlace: sameWidth, // a block of the result is written when the operands of that block were read
		Scratch: func(n *ir.Node) []int64 { return []int64{int64(d.Threads() * registersOf(n))} },
		Bind:    bindMap,
	}
}

// isScale reports whether an argument is a number by which can be divided; of others, quantising says what is wrong.
func isScale(n *ir.Node, arg int) bool {
	return isNumbers(n, []int{arg}) && n.Inputs[arg].Const.Float64(0) > 0
}

// registersOf is the size in bytes of the registers that a worker needs.
func registersOf(n *ir.Node) int { return (len(n.Inputs) + len(n.Op.(ir.Map).Expr)) * registerSize }

// blockOf is the number of elements of a block.
func blockOf(n *ir.Node, types []ir.Type) int {
	widest := 1
	for _, t := range types {
		widest = max(widest, t.DType.Size())
	}
	for _, v := range n.Inputs {
		widest = max(widest, v.Type.DType.Size())
	}
	return registerSize / widest
}

// loopOperands lists the operands that have more than one element or are no constants; the others are registers that
// are filled once.
func loopOperands(n *ir.Node) (list []int) {
	for i, v := range n.Inputs {
		if v.Const == nil || v.Const.Len() != 1 {
			list = append(list, i)
		}
	}
	return list
}

func argTypes(n *ir.Node, x ir.Instr, types []ir.Type) (d [3]tensor.DType) {
	for i, a := range x.Args[:min(len(x.Args), 3)] {
		if a >= 0 {
			d[i] = n.Inputs[a].Type.DType
		} else {
			d[i] = types[-1-a].DType
		}
	}
	return d
}

// blockFor finds the loop of an instruction by its op and the element types of its arguments; nil where there is none.
func blockFor(set *kernel.Set, x ir.Instr, in [3]tensor.DType, out tensor.DType) blockFunc {
	switch op := x.Op.(type) {
	case ir.Unary:
		k, ok := unaryKernel(op)
		if ok && in[0] == tensor.F32 {
			return func(dst, a, _, _ register, n int) { set.Unary(k, lanes[float32](dst, n), lanes[float32](a, n)) }
		}
		if l := unaryLoop(op, in[0]); l != nil {
			return l.block
		}
	case ir.Binary:
		if k, ok := binaryKernels[op.Fn]; ok && in[0] == tensor.F32 && in[1] == tensor.F32 {
			return func(dst, a, b, _ register, n int) {
				set.Binary(k, lanes[float32](dst, n), lanes[float32](a, n), lanes[float32](b, n))
			}
		}
		if isMaxOfBytes(op.Fn, in[0]) && in[0] == in[1] {
			return func(dst, a, b, _ register, n int) { set.MaxBytes(dst[:n], a, b, in[0] == tensor.I8) }
		}
		if l := binaryLoop(op.Fn, in[0], in[1]); l != nil {
			return l.block
		}
	case ir.Where:
		switch out.Size() {
		case 1:
			return blockWhere[uint8]
		case 4:
			return blockWhere[uint32]
		case 8:
			return blockWhere[uint64]
		}
	case ir.Quantize:
		if in[0] == tensor.F32 && in[1] == tensor.F32 && is8Bit(op.To) {
			return func(dst, a, scale, zero register, n int) {
				quantizeValues(set, op.To, dst[:n], lanes[float32](a, n), lanes[float32](scale, 1)[0], firstByte(op.To, zero))
			}
		}
	case ir.Dequantize:
		if is8Bit(in[0]) && in[1] == tensor.F32 && op.To == tensor.F32 {
			return func(dst, a, scale, zero register, n int) {
				dequantizeValues(set, in[0], lanes[float32](dst, n), a[:n], lanes[float32](scale, 1)[0], firstByte(in[0], zero))
			}
		}
	case ir.Cast:
		if l := casts[[2]tensor.DType{in[0], op.To}]; l != nil {
			return l.block
		}
	}
	return nil
}

func blockWhere[T tensor.Element](dst, a, b, c register, n int) {
	d, test, yes, no := lanes[T](dst, n), lanes[bool](a, n), lanes[T](b, n), lanes[T](c, n)
	for i, t := range test {
		if t {
			d[i] = yes[i]
		} else {
			d[i] = no[i]
		}
	}
}

func bindMap(b *binder, n *ir.Node, in, out []operand) (step, error) {
	o := n.Op.(ir.Map)
	types, err := o.Expr.Types(n.Inputs)
	if err != nil {
		return step{}, err
	}
	if s, ok := b.bindAdd(n, in, out[0]); ok {
		return s, nil
	}
	y, looped := out[0], loopOperands(n)
	operands := []*operand{&y}
	var fixed [mapRegisters]register // constants, the same for every block
	for _, i := range looped {
		operands = append(operands, &in[i])
	}
	for i, v := range n.Inputs {
		if v.Const != nil && v.Const.Len() == 1 {
			fixed[i] = b.register(v)
		}
	}
	type instruction struct {
		run  blockFunc
		args [3]int // registers; −1 for none
	}
	code := make([]instruction, len(o.Expr))
	for i, x := range o.Expr {
		code[i] = instruction{run: blockFor(b.d.set, x, argTypes(n, x, types), types[i].DType), args: [3]int{-1, -1, -1}}
		for k, a := range x.Args {
			if code[i].args[k] = a; a < 0 {
				code[i].args[k] = len(in) - 1 - a
			}
		}
	}
	loops := newNest(y.shape, operands...)
	inputs, scratch, each := len(in), b.scratchBytes(0), registersOf(n)
	block := blockOf(n, types)
	together := max(1, block/max(loops.cols, 1)) // rows of a block
	return step{parts: loops.parts(), run: func(m *machine, part, worker int) {
		var regs [mapRegisters]register
		copy(regs[:], fixed[:inputs])
		own := scratch.bytes(m)[worker*each:][:each]
		space := func(r int) register { return own[r*registerSize:][:registerSize] }
		dst := y.bytes(m)
		loops.blocks(part, func(rows, cols int, at [maxOperands]int) {
			for r := 0; r < rows; r += together {
				high := min(together, rows-r)
				for c := 0; c < cols; c += block {
					wide := min(block, cols-c)
					for k, i := range looped {
						if r > 0 && wide == cols && loops.row(k+1) == 0 {
							continue // as in the rows before
						}
						p := patch{from: at[k+1] + r*loops.row(k+1) + c*loops.col(k+1), row: loops.row(k + 1), col: loops.col(k + 1),
							high: high, wide: wide}
						regs[i] = load(&in[i], m, p, space(i))
					}
					for i := range code {
						x := &code[i]
						to := space(inputs + i)
						if i == len(code)-1 { // results are dense
							to = dst[(at[0]+r*loops.row(0)+c)*y.width:]
						}
						var args [3]register
						for k, a := range x.args {
							if a >= 0 {
								args[k] = regs[a]
							}
						}
						x.run(to, args[0], args[1], args[2], high*wide)
						regs[inputs+i] = to
					}
				}
			}
		})
	}}, nil
}

// register is a register filled with a number, once for all sizes.
func (b *binder) register(v *ir.Value) register {
	f := b.registers[v.ID]
	if f.number != v.Const {
		f = filled{v.Const, tensor.AlignedBytes(registerSize)}
		repeat(f.data, v.Const.Bytes(), registerSize/len(v.Const.Bytes()))
		b.registers[v.ID] = f
	}
	return f.data
}

// A patch is the elements of an operand that a block takes: wide of each of high rows, strides apart.
type patch struct{ from, row, col, high, wide int }

// isRun reports whether the elements are one after the other.
func (p patch) isRun() bool { return p.col == 1 && (p.high == 1 || p.row == p.wide) }

// fillRow writes a number to a row: some elements, which are then copied.
func fillRow(row []uint32, v uint32) {
	const few = 16
	n := min(few, len(row))
	for i := range n {
		row[i] = v
	}
	for n < len(row) {
		n += copy(row[n:], row[:n])
	}
}

// load returns a patch of an operand: where it is, or brought together in r.
func load(o *operand, m *machine, p patch, r register) register {
	all := o.bytes(m)
	switch src := all[p.from*o.width:]; {
	case p.isRun():
		return src
	case p.col == 0 && (p.row == 0 || p.high == 1):
		repeat(r, src[:o.width], p.high*p.wide)
	case p.col == 1 && p.row == 0:
		repeat(r, src[:p.wide*o.width], p.high)
	case p.col == 1:
		size := p.wide * o.width
		for i := range p.high {
			copy(r[i*size:][:size], src[i*p.row*o.width:])
		}
	case o.width == 4:
		from, to := lanes[uint32](all, len(all)/4), lanes[uint32](r, p.high*p.wide)
		for i := range p.high {
			at, row := p.from+i*p.row, to[i*p.wide:][:p.wide]
			if p.col == 0 {
				fillRow(row, from[at])
				continue
			}
			for k := range row {
				row[k] = from[at+k*p.col]
			}
		}
	default:
		for i := range p.high {
			for k := range p.wide {
				copy(r[(i*p.wide+k)*o.width:][:o.width], all[(p.from+i*p.row+k*p.col)*o.width:])
			}
		}
	}
	return r
}
