package check

import (
	"reflect"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A hash is the state of a hash of 64-bit words: a product and a shift a word (the finaliser of splitmix64 in one round). Equal words in
// the same order have equal hashes, and others have different ones but for one in 2⁶⁴.
type hash uint64

func (h *hash) add(word int) {
	x := (uint64(*h) ^ uint64(word)) * 0x9E3779B97F4A7C15
	*h = hash(x ^ x>>29)
}

func (h *hash) addShape(sizes, strides []int) {
	h.add(len(sizes))
	for i, n := range sizes {
		h.add(n)
		h.add(strides[i])
	}
}

// stamp hashes what each step is made from. It demands that the steps which are kept were made from the same, and that steps which share
// code differ only in where their operands are.
func (s *state) stamp(stamps, before []uint64, made []int) error {
	if before != nil && len(before) != len(stamps) {
		return reject(nil, "the binding has %d steps, and the one before it %d", len(stamps), len(before))
	}
	s.code = cleared(s.code, len(stamps))
	code := s.code
	for i, n := range s.Graph.Nodes {
		if f := &s.form.nodes[i]; f.step >= 0 {
			code[f.step] = s.codeOf(n, f)
		}
	}
	s.made = cleared(s.made, len(stamps))
	for _, i := range made {
		s.made[i] = true
	}
	for i, n := range s.Steps {
		if j := s.likeOf(i); j >= 0 && (before == nil || s.made[i]) {
			if j >= len(stamps) || code[i] != code[j] || int32(j) != s.form.like[i] && !reflect.DeepEqual(n.Op, s.Steps[j].Op) {
				return reject(n, "it shares the code of step %d, which has another op, or operands of other types or strides", j)
			}
		}
		stamps[i] = s.addressesOf(n, code[i])
	}
	if before == nil {
		return nil
	}
	for i, n := range s.Steps {
		if !s.made[i] && before[i] != stamps[i] {
			return reject(n, "it is kept as it was made for an earlier binding, in which sizes, strides or positions of its operands or "+
				"results were others")
		}
	}
	return nil
}

func (s *state) likeOf(i int) int {
	if s.Like == nil {
		return -1
	}
	return s.Like[i]
}

// codeOf hashes what the code of a step is made from: where it runs, the sizes in the fields of its op, the types and strides of its
// operands and results, and the sizes of its scratch.
func (s *state) codeOf(n *ir.Node, f *nodeForm) uint64 {
	h := hash(n.Op.Kind())
	h.add(int(s.runs[f.step]))
	for _, k := range f.fields {
		h.add(s.sizes[k])
	}
	for _, list := range [2][]*ir.Value{n.Inputs, n.Outputs} {
		for _, v := range list {
			switch l := s.layoutOf(v); {
			case v == nil:
				h.add(-1)
			case l == nil:
				h.add(int(v.Type.DType))
				for _, d := range v.Type.Shape {
					h.add(d.Int())
				}
			default:
				h.add(int(v.Type.DType))
				h.addShape(l.Shape, l.Strides)
			}
		}
	}
	for _, b := range s.Scratch[f.step] {
		h.add(int(s.Memory.Slots[b].Size))
	}
	return uint64(h)
}

// addressesOf hashes where the operands and results of a step are besides: their buffers, the offsets in them, and the contents of
// constants that are not packed, which are computed again at other sizes.
func (s *state) addressesOf(n *ir.Node, code uint64) uint64 {
	h := hash(code)
	for _, list := range [2][]*ir.Value{n.Inputs, n.Outputs} {
		for _, v := range list {
			l := s.layoutOf(v)
			switch {
			case v == nil:
				continue
			case l != nil:
				h.add(s.Buffers[l.Root.ID])
				h.add(l.Offset)
				v = l.Root
			}
			if v.Const != nil {
				h.add(addressOf(v.Const))
			}
		}
	}
	return uint64(h)
}

// addressOf distinguishes the contents of constants. A step holds the contents for which it was made, so no other content has that address.
func addressOf(t *tensor.Tensor) int { return int(reflect.ValueOf(t).Pointer()) }
