package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/internal/sharing"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// narrow makes the inner values of a model 16-bit floats: the operands and results of products, norms, embeddings and attention, and of
// the elementwise ops between them. All other values, such as masks and indices, keep their types, and casts are inserted in between.
// The kernels compute in float32 and round once for each operation.
// The memory of narrow constants is the slab's.
func narrow(g *ir.Graph, to tensor.DType, slab *sharing.Slab) error {
	n := &narrowing{graph: g, to: to, slab: slab, half: map[*ir.Node]bool{}, consts: map[*ir.Value]*ir.Value{}}
	for _, node := range g.Nodes {
		n.half[node] = n.takes(node)
	}
	for _, node := range g.Nodes {
		if err := n.node(node); err != nil {
			return err
		}
	}
	for i, v := range g.Outputs {
		if n.narrowed(v) {
			wide, err := n.cast(v, ir.Cast{To: tensor.F32})
			if err != nil {
				return err
			}
			wide.Name = v.Name
			g.Outputs[i] = wide
		}
	}
	g.Nodes = n.nodes
	n.round()
	slab.Trim()
	return ir.Verify(g)
}

type narrowing struct {
	graph  *ir.Graph
	to     tensor.DType
	slab   *sharing.Slab
	half   map[*ir.Node]bool
	nodes  []*ir.Node              // nodes of the changed graph
	consts map[*ir.Value]*ir.Value // constants in the narrow type
	casts  map[castKey]*ir.Value
}

type castKey struct {
	v  *ir.Value
	to tensor.DType
}

// takes reports whether a node computes in the narrow type.
func (n *narrowing) takes(node *ir.Node) bool {
	for _, v := range node.Outputs {
		if v.Type.Kind != ir.TensorType || v.Type.DType != tensor.F32 {
			return false
		}
	}
	follows := func(i int) bool {
		return node.Inputs[i] != nil && node.Inputs[i].Def != nil && n.half[node.Inputs[i].Def]
	}
	switch node.Op.Kind() {
	case ir.KindMatMul, ir.KindLayerNorm, ir.KindAttention, ir.KindEmbedding:
		return true
	case ir.KindReshape, ir.KindTranspose, ir.KindSlice, ir.KindExpand, ir.KindCopy, ir.KindRotary, ir.KindGather, ir.KindTile:
		return follows(0)
	case ir.KindConcat, ir.KindUnary, ir.KindBinary, ir.KindMap:
		any := false
		for i, v := range node.Inputs {
			if v == nil || v.Type.DType != tensor.F32 {
				return false
			}
			any = any || follows(i)
		}
		m, ok := node.Op.(ir.Map)
		return any && !(ok && slices.ContainsFunc(m.Expr, func(x ir.Instr) bool {
			return x.Op.Kind() != ir.KindUnary &&
				x.Op.Kind() != ir.KindBinary
		}))
	}
	return false
}

// narrowed reports whether a value has been made narrow.
func (n *narrowing) narrowed(v *ir.Value) bool { return v != nil && v.Def != nil && n.half[v.Def] }

// node puts a node with operands of the types that it takes.
func (n *narrowing) node(node *ir.Node) error {
	for i, v := range node.Inputs {
		var by *ir.Value
		var err error
		switch half := n.half[node]; {
		case v == nil || v.Type.Kind != ir.TensorType:
			continue
		case half && v.Type.DType == tensor.F32 && v.IsConst():
			by, err = n.constant(v)
		case half && v.Type.DType == tensor.F32:
			by, err = n.clipped(v)
		case !half && n.narrowed(v):
			by, err = n.cast(v, ir.Cast{To: tensor.F32})
		default:
			continue
		}
		if err != nil {
			return node.Fail(err)
		}
		node.SetInput(i, by)
	}
	if n.half[node] {
		for _, v := range node.Outputs {
			v.Type.DType = n.to
		}
	}
	n.nodes = append(n.nodes, node)
	return nil
}

// constant is a constant in the narrow type.
func (n *narrowing) constant(v *ir.Value) (*ir.Value, error) {
	if c := n.consts[v]; c != nil {
		return c, nil
	}
	if v.Const == nil {
		return nil, fmt.Errorf("constant %q is packed for another device", v.Name)
	}
	c := n.graph.NewConst(v.Name, n.slab.Tensor(n.to, v.Const.Shape()...))
	n.consts[v] = c
	return c, nil
}

// cast is a value in another type, cast once for all its readers.
func (n *narrowing) cast(v *ir.Value, op ir.Cast) (*ir.Value, error) {
	key := castKey{v, op.To}
	if c := n.casts[key]; c != nil {
		return c, nil
	}
	y, err := n.put(op, v)
	if err == nil {
		if n.casts == nil {
			n.casts = map[castKey]*ir.Value{}
		}
		n.casts[key] = y
	}
	return y, err
}

// put appends a node.
func (n *narrowing) put(op ir.Op, in ...*ir.Value) (*ir.Value, error) {
	node, err := n.graph.NewNode(op, in)
	if err != nil {
		return nil, err
	}
	if v := in[0]; v.Def != nil {
		node.Origins = v.Def.Origins
	}
	n.nodes = append(n.nodes, node)
	n.half[node] = false
	return node.Outputs[0], nil
}

// clipped is a float32 value in the narrow type, within its range: what excludes keys from attention by the largest float32
// still does so by the largest of the narrow type, where an infinity would make a row of nothing else NaN.
func (n *narrowing) clipped(v *ir.Value) (*ir.Value, error) {
	if n.to != tensor.F16 {
		return n.cast(v, ir.Cast{To: n.to})
	}
	key := castKey{v, n.to}
	if c := n.casts[key]; c != nil {
		return c, nil
	}
	limit := func(x float32) *ir.Value { return n.graph.NewConst("", tensor.Scalar(x)) }
	expr := ir.Expr{{Op: ir.Clip{}, Args: []int{0, 1, 2}}, {Op: ir.Cast{To: n.to}, Args: []int{-1}}}
	y, err := n.put(ir.Map{Expr: expr}, v, limit(-largestHalf), limit(largestHalf))
	if err == nil {
		if n.casts == nil {
			n.casts = map[castKey]*ir.Value{}
		}
		n.casts[key] = y
	}
	return y, err
}

// largestHalf is the largest float16.
const largestHalf = 65504

// round writes the narrow constants, on all processors. Finite numbers beyond float16 become its largest.
func (n *narrowing) round() {
	round := bfloat16
	if n.to == tensor.F16 {
		round = float16
	}
	const block = 1 << 14
	type part struct {
		dst []uint16
		src []byte // float32 numbers at any address, because weights in files are not aligned
	}
	var parts []part
	for from, to := range n.consts {
		dst, src := tensor.Of[uint16](to.Const.Bitcast(tensor.U16)), from.Const.Bytes()
		for len(dst) > 0 {
			size := min(len(dst), block)
			parts = append(parts, part{dst[:size], src})
			dst, src = dst[size:], src[4*size:]
		}
	}
	inParallel(len(parts), func(i int) {
		p := parts[i]
		for j := range p.dst {
			p.dst[j] = round(math.Float32frombits(binary.LittleEndian.Uint32(p.src[4*j:])))
		}
	})
}

// bfloat16 rounds to nearest, ties to even.
func bfloat16(x float32) uint16 {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// float16 rounds to nearest, ties to even. Finite numbers beyond the type become its largest.
func float16(x float32) uint16 {
	b := math.Float32bits(x)
	sign, b := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b == 0x7f800000:
		return sign | 0x7c00
	case b >= 0x477fe000:
		return sign | 0x7bff
	case b < 0x38800000: // subnormal: adding 0.5 leaves the code in the low bits, rounded by the addition
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	return sign | uint16((b-0x38000000+0xfff+b>>13&1)>>13)
}
