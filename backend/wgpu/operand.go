package wgpu

import (
	"fmt"
	"slices"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// An operand is a value and where it is on the device.
type operand struct {
	gpu.Operand
	off    int // offset from the start of memory, in bytes
	memory memory
	weight *weight // the constant on the device; nil for other operands
}

// first returns the offset of the operand's first element in its memory, in elements.
func (o *operand) first() int { return o.off / o.Width }

// binder resolves the operands of one program's steps.
type binder struct {
	d        *Device
	p        *gpu.Locations
	own      weights         // constants of this binding alone
	node     *ir.Node        // node that is being bound
	scratch  []int           // indices of its scratch buffers in the plan
	wide     map[int]operand // float32 operands that replace 16-bit values, by ID, if the step computes in float32
	launches []launch
	nodes    []*ir.Node                  // node of each launch
	streamed map[*native.Buffer]streamed // parts of the stream, by placeholder
}

// A streamed is the part of the stream that a placeholder is for, in the step of a node.
type streamed struct {
	gpu.Location
	node *ir.Node
}

// Binder implements gpu.Driver.
func (d *Device) Binder(p *gpu.Locations) gpu.Binder {
	return &binder{d: d, p: p, own: weights{}, streamed: map[*native.Buffer]streamed{}}
}

// Abandon implements gpu.Binder.
func (b *binder) Abandon() { b.own.release() }

// Bind implements gpu.Binder.
func (b *binder) Bind(n *ir.Node, scratch []int) (int, error) {
	b.node, b.scratch = n, scratch
	e := b.d.table[n.Op.Kind()]
	launches, err := e.Launches(b, n)
	if err != nil {
		return 0, err
	}
	for _, x := range launches {
		if !b.d.fits(x.shader) {
			return 0, errOnHost
		}
	}
	b.launches = append(b.launches, launches...)
	b.nodes = append(b.nodes, slices.Repeat([]*ir.Node{n}, len(launches))...)
	return len(launches), nil
}

// Reads implements gpu.Binder: a binding holds the constant, or the kernel takes it in pieces.
func (b *binder) Reads(n *ir.Node, v *ir.Value) bool {
	return int64(len(b.p.Layout(v).Root.Const.Bytes())) <= b.d.binding || b.pieces(n, v)
}

// pieces reports whether v may be a constant above the largest binding at all its positions among the operands of n.
func (b *binder) pieces(n *ir.Node, v *ir.Value) bool {
	may := b.d.table[n.Op.Kind()].Pieces
	for i, x := range n.Inputs {
		if x != nil && x.ID == v.ID && (may == nil || !may(i)) {
			return false
		}
	}
	return true
}

// Resolve implements gpu.Resolver: a value is as the step's kernel sees it.
func (b *binder) Resolve(v *ir.Value, arranged bool) (*operand, error) {
	if o, ok := b.wide[v.ID]; ok {
		return &o, nil
	}
	l := b.p.Layout(v)
	o := &operand{Operand: gpu.Operand{DType: v.Type.DType, Shape: v.Type.Sizes(), Strides: l.Strides, Width: v.Type.DType.Size()}}
	o.off = l.Offset * o.Width
	if at, ok := b.p.At(l.Root); ok {
		o.off += int(at.Offset)
		o.memory.segment = at.Segment
	}
	if !l.Root.IsConst() || arranged {
		return o, nil
	}
	w, err := b.weight(l.Root.Const, o.DType == tensor.F32) // of 16-bit floats that are asked for as float32, a separate constant
	if err != nil {
		return nil, err
	}
	if len(w.pieces) > 1 && !b.pieces(b.node, v) { // widened, it is larger than a binding
		return nil, errOnHost
	}
	o.weight, o.memory = w, memory{constant: w.pieces[0]}
	return o, nil
}

// scratchOperand resolves scratch buffer i of the current step as floats.
func (b *binder) scratchOperand(i int) *operand {
	at, size := b.p.Buffer(b.scratch[i])
	return &operand{Operand: gpu.RowMajor(tensor.F32, int(size)/4), off: int(at.Offset), memory: memory{segment: at.Segment}}
}

// inRange puts the lines that make index i, which index has read, count from the start, and end the invocation's function by
// otherwise when it is outside of an axis.
func (b *binder) inRange(s *shader, i string, axis, size int, otherwise string) {
	n := s.u(size)
	s.put("if (%[1]s < 0) { %[1]s += i32(%[2]s); }", i, n)
	bad := func(number int64) error { return backend.OutOfRange(number, axis, size) }
	b.refuse(s, i, fmt.Sprintf("%s < 0 || %s >= i32(%s)", i, i, n), bad, otherwise)
}

// refuse puts the lines that report number i, which index has read, and continue by otherwise where it has more than 32 bits or bad holds.
func (b *binder) refuse(s *shader, i, bad string, err func(number int64) error, otherwise string) {
	m, at := s.bind(memory{segment: gpu.Status, word: "u32"}), s.u(b.p.Report(b.node, err)/4)
	s.put("if (%s || %s) {", wider(i), bad)
	s.put("%[1]s[%[2]s] = 1u;\n%[1]s[%[2]s + 2u] = low_%[3]s;\n%[1]s[%[2]s + 3u] = high_%[3]s;\n%[4]s\n}", m, at, i, otherwise)
}

// atomic is the word of shaders that combine what several invocations write to the arena.
const atomic = "atomic<u32>"

// wordAt is the WGSL expression of 32-bit word i of a memory, as u32.
func (s *shader) wordAt(m memory, i string) string {
	if s.word == atomic && m.constant != nil {
		m.word = "u32"
	}
	switch name := s.bind(m); {
	case s.lanes() == 4:
		return fmt.Sprintf("bitcast<u32>(%s[(%s) / 4u][(%s) %% 4u])", name, i, i)
	case s.word == atomic && m.constant == nil:
		return fmt.Sprintf("atomicLoad(&%s[%s])", name, i)
	default:
		return fmt.Sprintf("bitcast<u32>(%s[%s])", name, i)
	}
}

// index puts the lines that read element j of an operand of indices into the variable i, an i32: of those of 64 bits the low
// ones.
func (s *shader) index(i string, o *operand, j string) {
	first := s.u(o.first())
	if o.DType == tensor.I32 {
		s.put("let low_%[1]s = %[2]s;\nlet high_%[1]s = bitcast<u32>(bitcast<i32>(low_%[1]s) >> 31u);", i,
			s.wordAt(o.memory, first+" + "+j))
	} else {
		s.put("let at_%s = (%s + %s) * 2u;", i, first, j)
		s.put("let low_%[1]s = %[2]s;\nlet high_%[1]s = %[3]s;", i, s.wordAt(o.memory, "at_"+i), s.wordAt(o.memory, "at_"+i+" + 1u"))
	}
	s.put("var %[1]s = bitcast<i32>(low_%[1]s);", i)
}

// wider is the WGSL expression of whether index i has more than 32 bits.
func wider(i string) string {
	return fmt.Sprintf("high_%[1]s != bitcast<u32>(bitcast<i32>(low_%[1]s) >> 31u)", i)
}

// row returns what puts the lines that set a variable to word c of a row of a table; width is the row's number of words. A
// constant above the largest binding is in several.
func (s *shader) row(o *operand, row, width string) func(to, c string) {
	if o.weight == nil || len(o.weight.pieces) == 1 {
		m, first := s.bind(o.memory), s.u(int(int64(o.off)/s.wordSize))
		return func(to, c string) { s.put("%s = %s[%s + %s * %s + %s];", to, m, first, row, width, c) }
	}
	per := s.u(o.weight.rows)
	return func(to, c string) {
		s.put("switch ((%s) / %s) {", row, per)
		for k, piece := range o.weight.pieces {
			label := fmt.Sprintf("case %du:", k)
			if k == len(o.weight.pieces)-1 {
				label = "default:"
			}
			s.put("%s { %s = %s[((%s) %% %s) * %s + %s]; }", label, to, s.bind(memory{constant: piece}), row, per, width, c)
		}
		s.put("}")
	}
}
