package planner

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
)

// Gap is a range of steps [First, Last) within the lifetime of a buffer, during which others may use its memory except for the bytes
// [Low, High).
type Gap struct {
	First int   `json:"first"`
	Last  int   `json:"last"`
	Low   int64 `json:"low,omitempty"`
	High  int64 `json:"high,omitempty"`
}

func (b *Buffer) validateGaps() error {
	free := b.First
	for _, g := range b.Gaps {
		switch {
		case g.First < free || g.First >= g.Last || g.Last > b.Last:
			return fmt.Errorf("the gap [%d, %d) is empty, before the end of another, or outside of the lifetime [%d, %d)", g.First, g.Last,
				b.First, b.Last)
		case g.Low < 0 || g.Low > g.High || g.High > b.Size:
			return fmt.Errorf("the gap [%d, %d) leaves the bytes [%d, %d) of %d in use", g.First, g.Last, g.Low, g.High, b.Size)
		case b.Group != 0:
			return fmt.Errorf("a buffer of a group cannot have gaps")
		case b.Elements != 0 && g.High > 0:
			return fmt.Errorf("a gap with bytes in use requires sizes in bytes, but the buffer's are in elements")
		}
		free = g.Last
	}
	return nil
}

// A hold is a period in which a block occupies a range of its bytes.
type hold struct {
	tenure       // addresses begin at the block's offset
	bytes  int64 // occupied bytes without guard and rounding
}

// holds cuts the life of a buffer at its gaps. Its guard comes after the bytes that are in use.
func (b *Buffer) holds(bytes, guard int64) (list []hold) {
	at := b.First
	add := func(first, last int, low, high int64) {
		if first < last && low < high {
			list = append(list, hold{tenure{low, high + guard, first, last, 0}, high - low})
		}
	}
	for _, g := range b.Gaps {
		add(at, g.First, 0, bytes)
		add(g.First, g.Last, g.Low, g.High)
		at = g.Last
	}
	add(at, b.Last, 0, bytes)
	return list
}

// held yields the holds of a block. A block without gaps has one, for its whole life.
func (k *block) held() iter.Seq[hold] {
	return func(yield func(hold) bool) {
		if !k.gapped {
			yield(hold{tenure{0, k.size, k.first, k.last, 0}, k.bytes})
			return
		}
		for _, p := range k.holds {
			if !yield(p) {
				return
			}
		}
	}
}

// at returns the tenure of a hold of block i at an offset.
func (p *hold) at(offset int64, i int32) tenure {
	return tenure{p.low + offset, p.high + offset, p.first, p.last, i}
}

// clash reports whether two blocks cannot have the offsets that they have.
func clash(a, b *block) bool {
	for t := range a.held() {
		for u := range b.held() {
			low, high := b.offset+u.low-a.offset, b.offset+u.high-a.offset
			if t.first < u.last && u.first < t.last && t.low < high && low < t.high {
				return true
			}
		}
	}
	return false
}

// around returns what is taken while k lives, by address. Where k has gaps, what is in the way of a part of it is put down as if
// all of k had to miss it: a tenure that the part misses at an offset ends below or begins above all of k there.
func (x *timeline) around(k *block) []tenure {
	if !k.gapped {
		return x.overlapping(k.first, k.last)
	}
	var list []tenure
	for _, p := range k.holds {
		for _, t := range x.overlapping(p.first, p.last) {
			t.low, t.high = t.low-p.high+k.size, t.high-p.low
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b tenure) int { return cmp.Compare(a.low, b.low) })
	return list
}

// lives reports whether a block takes bytes at a step.
func (k *block) lives(step int) bool {
	for p := range k.held() {
		if p.first <= step && step < p.last && p.low < p.high {
			return true
		}
	}
	return false
}
