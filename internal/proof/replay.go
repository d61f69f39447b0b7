package proof

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// Replay runs the claim with steps that hash: every step computes its results from a hash of all that it reads. Two memories
// go side by side, the plan's arenas and one allocation a value, and a step that finds its operands different in them ends
// the run with an error. The arenas start filled with a byte; a step spoils its scratch and its results before it reads,
// as a kernel that writes while it reads would, but for results that it may write over an operand; and what nothing reads
// any more is spoiled at once.
func Replay(c Claim, fill byte) error {
	r := &replay{Claim: c, layouts: newLayouts(c), own: map[*ir.Value][]byte{}, left: map[*ir.Value]int{}, seed: maphash.MakeSeed(),
		fill: fill}
	for _, size := range c.Arenas {
		r.arenas = append(r.arenas, r.spoil(make([]byte, size)))
	}
	if err := r.count(); err != nil {
		return err
	}
	for i, v := range c.Graph.Inputs {
		if err := r.write(v, uint64(i), "the caller"); err != nil {
			return err
		}
	}
	for i, n := range c.Steps {
		if err := r.step(i, n); err != nil {
			return err
		}
	}
	for _, v := range append(c.Graph.Outputs, c.Held...) {
		if _, err := r.read(v, "the caller"); err != nil {
			return err
		}
	}
	return nil
}

type replay struct {
	Claim
	layouts *layouts
	arenas  [][]byte
	own     map[*ir.Value][]byte // bytes of each root in separate memory, for comparison
	left    map[*ir.Value]int    // number of reads of each root that are still to come
	late    []lateRead
	seed    maphash.Seed
	fill    byte
}

func (r *replay) spoil(b []byte) []byte {
	for i := range b {
		b[i] = r.fill
	}
	return b
}

// count counts the reads of every root.
func (r *replay) count() error {
	read := func(values []*ir.Value) error {
		if err := r.layouts.show(values); err != nil {
			return err
		}
		for _, v := range values {
			if v != nil {
				r.left[r.layouts.of(v).Root]++
			}
		}
		return nil
	}
	for _, n := range r.Steps {
		if err := read(n.Inputs); err != nil {
			return err
		}
	}
	if err := read(r.Graph.Outputs); err != nil {
		return err
	}
	return read(r.Held)
}

// planned is a root's memory in the arenas.
func (r *replay) planned(root *ir.Value, by string) ([]byte, error) {
	p, ok := r.Region(root)
	if !ok {
		return nil, fmt.Errorf("%s: %s has no buffer in the plan", by, name(root))
	}
	p.Size = r.layouts.bytes(root)
	return r.bytes(p)
}

func (r *replay) bytes(p Region) ([]byte, error) {
	if p.Arena < 0 || p.Arena >= len(r.arenas) || p.Offset < 0 || p.Offset > int64(len(r.arenas[p.Arena]))-p.Size {
		return nil, fmt.Errorf("byte %d of arena %d and the %d after it are not the plan's", p.Offset, p.Arena, p.Size)
	}
	return r.arenas[p.Arena][p.Offset:][:p.Size], nil
}

// write puts contents that follow from a hash where the plan says and into separate memory.
func (r *replay) write(v *ir.Value, hash uint64, by string) error {
	to, err := r.planned(v, by)
	if err != nil {
		return err
	}
	own := make([]byte, len(to))
	var word [8]byte
	for i, state := 0, 2*hash+1; i < len(own); i += 8 {
		state ^= state << 13 // xorshift (Marsaglia 2003), from a state that is not 0
		state ^= state >> 7
		state ^= state << 17
		binary.LittleEndian.PutUint64(word[:], state)
		copy(own[i:], word[:])
	}
	r.keep(v, own, to)
	if r.layouts.into(v) != nil {
		r.copyPart(v, to, own)
	} else {
		copy(to, own)
	}
	if r.left[v] > 0 {
		r.own[v] = own
	} else {
		r.forget(v, to)
	}
	return nil
}

// copyPart copies what v shows of the result of a Concat.
func (r *replay) copyPart(v *ir.Value, to, from []byte) {
	width := v.Type.DType.Size()
	for at := range r.layouts.addresses(v) {
		copy(to[at*width:][:width], from[at*width:])
	}
}

// keep copies what is in the result of a Concat before it runs.
func (r *replay) keep(v *ir.Value, to, from []byte) {
	for _, x := range r.parts(v) {
		r.copyPart(x, to, from)
	}
}

// parts are the operands of a Concat that are in its result v.
func (r *replay) parts(v *ir.Value) (list []*ir.Value) {
	if v.Def == nil {
		return nil
	}
	for _, x := range v.Def.Inputs {
		if x != nil && r.layouts.into(x) == v {
			list = append(list, x)
		}
	}
	return list
}

// forget spoils memory that nothing reads any more.
func (r *replay) forget(v *ir.Value, b []byte) {
	isRead := func(x *ir.Value) bool { return r.left[x] > 0 }
	if r.layouts.into(v) == nil && !slices.ContainsFunc(r.parts(v), isRead) {
		r.spoil(b)
	}
}

// read hashes what v shows and demands that both memories agree.
func (r *replay) read(v *ir.Value, by string) (uint64, error) {
	l := r.layouts.of(v)
	if l.Root.IsConst() {
		return uint64(v.ID), nil
	}
	planned, err := r.planned(l.Root, by)
	if err != nil {
		return 0, err
	}
	own, written := r.own[l.Root]
	if !written && len(planned) > 0 {
		return 0, fmt.Errorf("%s reads %s before it is written", by, name(v))
	}
	hash := r.hash(v, l, own)
	if r.hash(v, l, planned) != hash {
		return 0, fmt.Errorf("%s finds other contents in %s than were written there", by, name(v))
	}
	return hash, nil
}

// hash hashes the elements of v in order.
func (r *replay) hash(v *ir.Value, l ir.Layout, root []byte) uint64 {
	shape, width := v.Type.Sizes(), v.Type.DType.Size()
	if shape.Elements() == 0 {
		return 0
	}
	if l.Contiguous() { // as all are whose elements are parts of bytes
		first := l.Offset * width
		return maphash.Bytes(r.seed, root[first:first+v.Type.DType.Bytes(shape.Elements())])
	}
	var h maphash.Hash
	h.SetSeed(r.seed)
	st := shape.Strides()
	for i := range shape.Elements() {
		at := l.Offset
		for k := range shape {
			at += i / st[k] % shape[k] * l.Strides[k]
		}
		h.Write(root[at*width:][:width])
	}
	return h.Sum64()
}

func (r *replay) step(i int, n *ir.Node) error {
	by := "step " + n.Label()
	if err := r.asMade(i, n); err != nil {
		return err
	}
	if err := r.spoilTargets(i, n, by); err != nil {
		return err
	}
	hash := uint64(i)
	for _, v := range n.Inputs {
		if v == nil {
			continue
		}
		h, err := r.read(v, by)
		if err != nil {
			return err
		}
		hash = hash*0x9E3779B97F4A7C15 + h
	}
	late := min(r.LateReads(n), len(r.Steps)-1-i)
	for _, v := range n.Inputs {
		switch {
		case v == nil:
		case late > 0:
			r.late = append(r.late, lateRead{v, by + " (late)", i + late})
		default:
			if err := r.done(v, by); err != nil {
				return err
			}
		}
	}
	for k, v := range n.Outputs {
		if err := r.write(v, hash+uint64(k), by); err != nil {
			return err
		}
	}
	return r.lateReads(i)
}

// spoilTargets spoils the scratch memory and the results of a step, except results in the memory of an operand that the step may overwrite.
func (r *replay) spoilTargets(i int, n *ir.Node, by string) error {
	for _, p := range r.Scratch(i) {
		b, err := r.bytes(p)
		if err != nil {
			return err
		}
		r.spoil(b)
	}
	for k, v := range n.Outputs {
		to, err := r.planned(v, by)
		if err != nil {
			return err
		}
		over := false
		for j, x := range n.Inputs {
			if x == nil || k > 0 || !r.InPlace(n, j) || r.layouts.of(x).Root.IsConst() {
				continue
			}
			p, _ := r.Region(r.layouts.of(x).Root)
			q, _ := r.Region(v)
			over = over || p.Arena == q.Arena && p.Offset == q.Offset
		}
		if !over {
			before, spoiled := slices.Clone(to), r.spoil(make([]byte, len(to)))
			if r.keep(v, spoiled, before); r.layouts.into(v) != nil {
				r.copyPart(v, to, spoiled)
			} else {
				copy(to, spoiled)
			}
		}
	}
	return nil
}

// lateReads reads once more what earlier steps still read after step i.
func (r *replay) lateReads(i int) error {
	keep := r.late[:0]
	for _, x := range r.late {
		if _, err := r.read(x.v, x.by); err != nil {
			return err
		}
		if x.until > i {
			keep = append(keep, x)
		} else if err := r.done(x.v, x.by); err != nil {
			return err
		}
	}
	r.late = keep
	return nil
}

// done counts a read, and spoils what nothing will read again.
func (r *replay) done(v *ir.Value, by string) error {
	root := r.layouts.of(v).Root
	if r.left[root]--; r.left[root] > 0 || root.IsConst() {
		return nil
	}
	delete(r.own, root)
	b, err := r.planned(root, by)
	r.forget(root, b)
	return err
}
