package proof

import (
	"fmt"
	"iter"
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// layouts holds the layouts of values that the kernels get. It compares the layout of a view with the layout of the view's operand, element
// by element, by the definition of the op. It does not use the arithmetic of strides from which the layout was made.
type layouts struct {
	claim Claim
	known []ir.Layout // layouts by ID of the value, with roots that follow from the graph; zero before a step or a view needs them
	// within holds the operand that a result is written over, by ID of the result, if the operand is a part of a buffer.
	within map[int]*ir.Value
	// joined holds the result of the Concat, by ID of an operand that is written directly into it.
	joined map[int]*ir.Value
}

func newLayouts(c Claim) *layouts {
	return &layouts{c, make([]ir.Layout, c.Graph.NumValues()), map[int]*ir.Value{}, map[int]*ir.Value{}}
}

// over returns the operand, a part of a buffer, that v is written over by strides; nil for a row-major value.
func (l *layouts) over(v *ir.Value) *ir.Value { return l.within[v.ID] }

// into returns the result of the Concat that v is written into; nil for a value with memory of its own.
func (l *layouts) into(v *ir.Value) *ir.Value { return l.joined[v.ID] }

// elements returns the number of elements in the memory of a root.
func (l *layouts) elements(root *ir.Value) int {
	if x := l.over(root); x != nil {
		return l.elements(l.of(x).Root)
	}
	if whole := l.into(root); whole != nil {
		return whole.Type.Elements()
	}
	return root.Type.Elements()
}

// bytes is elements, of any size.
func (l *layouts) bytes(root *ir.Value) int64 { return int64(root.Type.DType.Bytes(l.elements(root))) }

// disjoint reports whether two values whose layouts are in the same memory share no element of it.
func (l *layouts) disjoint(v, x *ir.Value) bool {
	seen := make([]bool, l.elements(l.of(v).Root))
	free := v.Type.DType.Size() == x.Type.DType.Size()
	for at := range l.addresses(v) {
		if at >= len(seen) {
			return false
		}
		seen[at] = true
	}
	for at := range l.addresses(x) {
		free = free && at < len(seen) && !seen[at]
	}
	return free
}

// addresses yields the elements that a value shows.
func (l *layouts) addresses(v *ir.Value) iter.Seq[int] {
	lay, shape := l.of(v), v.Type.Sizes()
	return func(yield func(at int) bool) {
		index, at := make([]int, len(shape)), lay.Offset
		for range shape.Elements() {
			if !yield(at) {
				return
			}
			for i := len(shape) - 1; i >= 0; i-- {
				if index[i]++; index[i] < shape[i] {
					at += lay.Strides[i]
					break
				}
				at -= (shape[i] - 1) * lay.Strides[i]
				index[i] = 0
			}
		}
	}
}

// of is the layout of a value that has been shown.
func (l *layouts) of(v *ir.Value) ir.Layout {
	if l.known[v.ID].Root == nil {
		l.known[v.ID] = ir.OwnLayout(v)
	}
	return l.known[v.ID]
}

// show checks the layouts of values that a step reads or writes, and of the views on the way to them.
func (l *layouts) show(values []*ir.Value) error {
	var views []*ir.Node
	for _, v := range values {
		for v != nil && isView(v) && l.known[v.ID].Root == nil {
			views = append(views, v.Def)
			v = v.Def.Inputs[0]
		}
		if v != nil && !isView(v) {
			if err := l.own(v); err != nil {
				return err
			}
		}
		for ; len(views) > 0; views = views[:len(views)-1] {
			if err := l.view(views[len(views)-1]); err != nil {
				return err
			}
		}
	}
	return nil
}

func isView(v *ir.Value) bool { return v.Def != nil && v.Def.Op.Kind().Has(ir.View) }

// own demands that a value that is not a view is row-major from the beginning of its memory; or as an operand does which is a part of a
// buffer, where the kernel may write over it; or that it is where a Concat wants it.
func (l *layouts) own(v *ir.Value) error {
	lay, n := l.claimed(v), v.Def
	if n != nil && v == n.Outputs[0] && l.over(v) == nil && l.claim.StridedResult != nil && l.claim.StridedResult(n, lay.Strides) {
		l.join(v, lay)
		for i, x := range n.Inputs {
			if x == nil || !l.claim.InPlace(n, i) || !x.Type.Equal(v.Type) || l.whole(x) {
				continue
			}
			if from := l.of(x); from.Offset == lay.Offset && slices.Equal(from.Strides, lay.Strides) && l.sameRegion(from.Root, lay.Root) {
				l.known[v.ID], l.within[v.ID] = ir.Layout{Root: v, Offset: lay.Offset, Shape: lay.Shape, Strides: lay.Strides}, x
			}
		}
	}
	if l.over(v) == nil && l.into(v) == nil && (lay.Offset != 0 || !lay.Contiguous()) {
		return fmt.Errorf("%s is not a view, and kernels see it from element %d on with strides %v", name(v), lay.Offset, lay.Strides)
	}
	return nil
}

// whole reports whether v shows all of its memory, row-major.
func (l *layouts) whole(v *ir.Value) bool {
	lay := l.of(v)
	return lay.Offset == 0 && size(v) == l.bytes(lay.Root) && lay.Contiguous()
}

// join finds a Concat in whose result a value is, and where it wants it.
func (l *layouts) join(v *ir.Value, lay ir.Layout) {
	for _, u := range v.Uses {
		op, ok := u.Node.Op.(ir.Concat)
		if !ok || lay.Root != u.Node.Outputs[0] || l.into(v) != nil {
			continue
		}
		whole, before, times := ir.OwnLayout(lay.Root), 0, 0
		for i, x := range u.Node.Inputs {
			if i < u.Index {
				before += x.Type.Sizes()[op.Axis]
			}
			if x == v {
				times++
			}
		}
		fits := times == 1 && v.Type.DType == lay.Root.Type.DType
		for index := range sample(lay.Shape) {
			at := address(lay, index)
			index[op.Axis] += before
			fits = fits && at == address(whole, index)
			index[op.Axis] -= before
		}
		if fits {
			l.known[v.ID], l.joined[v.ID] = ir.Layout{Root: v, Offset: lay.Offset, Shape: lay.Shape, Strides: lay.Strides}, lay.Root
		}
	}
}

// claimed is the layout that a value is said to have, with the shape that it has.
func (l *layouts) claimed(v *ir.Value) ir.Layout {
	lay := l.claim.Layout(v)
	lay.Shape = v.Type.Sizes()
	return lay
}

// sameRegion reports whether two roots begin at the same byte of the plan.
func (l *layouts) sameRegion(a, b *ir.Value) bool {
	p, planned := l.claim.Region(a)
	q, too := l.claim.Region(b)
	return planned && too && p.Arena == q.Arena && p.Offset == q.Offset
}

func (l *layouts) view(n *ir.Node) error {
	in, out := l.of(n.Inputs[0]), n.Outputs[0]
	if out.Type.DType.Size() == 0 {
		return fmt.Errorf("view %s: elements of %s do not start at bytes", n.Label(), out.Type.DType)
	}
	lay := l.claimed(out)
	if p, ok := l.claim.Region(in.Root); ok {
		if q, ok := l.claim.Region(lay.Root); !ok || p.Arena != q.Arena || p.Offset != q.Offset {
			return fmt.Errorf("view %s shows memory of %s, not of its operand's root %s", n.Label(), name(lay.Root), name(in.Root))
		}
	} else if lay.Root != in.Root {
		return fmt.Errorf("view %s shows %s, not its operand's root %s", n.Label(), name(lay.Root), name(in.Root))
	}
	lay.Root = in.Root
	l.known[out.ID] = lay
	from, shape, all := n.Inputs[0].Type.Sizes(), out.Type.Sizes(), l.elements(lay.Root)
	shown := make([]int, len(from))
	for index := range sample(shape) {
		operandIndex(shown, n.Op, from, shape, index)
		at, want := address(lay, index), address(in, shown)
		if at != want {
			return fmt.Errorf("view %s shows element %d of %s at %v, where it means element %d", n.Label(), at, name(lay.Root), index, want)
		}
		if at < 0 || at >= all {
			return fmt.Errorf("view %s shows element %d of %s, which has %d", n.Label(), at, name(lay.Root), all)
		}
	}
	return nil
}

func address(l ir.Layout, index []int) int {
	at := l.Offset
	for i, k := range index {
		at += k * l.Strides[i]
	}
	return at
}

// operandIndex sets shown, the index of the element of an operand with sizes from that a view with sizes to shows at an index. Before the
// first call shown is zero: an axis along which a view repeats its operand remains as it is.
func operandIndex(shown []int, op ir.Op, from, to, index []int) {
	switch op := op.(type) {
	case ir.Reshape:
		flat := 0
		for i, k := range index {
			flat = flat*to[i] + k
		}
		for i := len(from) - 1; i >= 0; i-- {
			shown[i] = flat % from[i]
			flat /= from[i]
		}
	case ir.Transpose:
		for i, axis := range op.Perm {
			shown[axis] = index[i]
		}
	case ir.Slice:
		for i, k := range index {
			shown[i] = op.Starts[i].Int() + k*op.Steps[i]
		}
	case ir.Expand:
		for i, size := range from {
			if size > 1 {
				shown[i] = index[len(to)-len(from)+i]
			}
		}
	}
}

// samples is how many elements of a view are looked at: all of a small one.
const samples = 512

// sample yields indices of a shape: all where there are few, otherwise the corners and some that are spread over it.
func sample(shape []int) func(yield func(index []int) bool) {
	return func(yield func(index []int) bool) {
		all := 1
		for _, size := range shape {
			all *= size
		}
		index := make([]int, len(shape))
		visit := func(flat int) bool {
			for i := len(shape) - 1; i >= 0; i-- {
				index[i] = flat % shape[i]
				flat /= shape[i]
			}
			return yield(index)
		}
		if all <= samples {
			for flat := range all {
				if !visit(flat) {
					return
				}
			}
			return
		}
		step := 1
		for i := len(shape) - 1; i >= 0; i-- { // one step and the last along each axis
			if shape[i] > 1 && (!visit(step) || !visit(step*(shape[i]-1))) {
				return
			}
			step *= shape[i]
		}
		state := uint64(1)
		for range samples {
			state = state*6364136223846793005 + 1442695040888963407 // Knuth's MMIX
			if !visit(int(state>>1) % all) {
				return
			}
		}
		_ = visit(0) && visit(all-1)
	}
}
