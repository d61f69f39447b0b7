package planner

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// placeTLSF replays the program on a TLSF allocator. It serves executors that run the nodes of one
// execution level in any order: a block is freed for those that follow only when every one of them
// is at a deeper level than its last reader and at a later step, so that ordering edges between
// unrelated nodes are not needed. Blocks of a copy lane are held for the length of their life once
// more, since a copy may still be under way.
func placeTLSF(sp *space, _ *Options) {
	queue := make([]*block, 0, len(sp.blocks)) // in the order of allocation
	for i := range sp.blocks {
		if k := &sp.blocks[i]; k.movable() {
			queue = append(queue, k)
		}
	}
	slices.SortStableFunc(queue, func(a, b *block) int {
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.first, b.first))
	})
	frees := sp.releases(queue)

	alloc, free := sp.allocator()
	for i, k := range queue {
		for _, dead := range frees[i] {
			free(dead)
		}
		alloc(k)
	}
}

// placeInOrder replays the steps one by one on a TLSF allocator. Its time does not depend on how many blocks live at once.
func (sp *space) placeInOrder() { sp.replay(sp.allocator()) }

// allocator gives what places and frees blocks behind the fixed ones.
func (sp *space) allocator() (alloc, free func(*block)) {
	heap := newTLSF()
	base := sp.behindFixed()
	if sp.segment == 0 {
		heap.addPool(base, math.MaxInt64-maxAlign-base) // more than all blocks can take
	}
	alloc = func(k *block) {
		offset, err := heap.alloc(k.size, k.align)
		for err != nil { // only with segments: a fresh one holds every block
			end := (base/sp.segment + 1) * sp.segment
			heap.addPool(base, end-base)
			base = end
			offset, err = heap.alloc(k.size, k.align)
		}
		k.offset = offset
	}
	free = func(k *block) {
		if err := heap.free(k.offset); err != nil {
			panic(err) // each block is freed once, behind its allocation
		}
	}
	return alloc, free
}

// releases returns for each place in the queue the blocks that are free from there on.
func (sp *space) releases(queue []*block) [][]*block {
	earliest := make([]int, len(queue)) // first step of any block from here on
	for i := len(queue) - 1; i >= 0; i-- {
		earliest[i] = queue[i].first
		if i+1 < len(queue) {
			earliest[i] = min(earliest[i], earliest[i+1])
		}
	}
	frees := make([][]*block, len(queue)+1)
	for _, k := range queue {
		end := k.last
		if sp.lane.Copy {
			end += k.last - k.first
		}
		at := sort.Search(len(queue), func(i int) bool { return queue[i].level > k.lastLevel && earliest[i] >= end })
		frees[at] = append(frees[at], k)
	}
	return frees
}
