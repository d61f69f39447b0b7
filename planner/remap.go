package planner

import (
	"cmp"
	"slices"
)

// remapGrain is what the remap mode rounds sizes to: its pools hold pieces of equal rounded size.
const remapGrain = 256

// placeRemap keeps a pool of free pieces for each dtype and size rounded to 256 bytes. A block
// takes the piece freed last; what dies at a step is freed before that step takes anything.
func placeRemap(sp *space, _ *Options) {
	type pool struct {
		dtype uint8
		align int64
		size  int64
	}
	free := map[pool][]int64{}
	poolOf := func(k *block) pool {
		return pool{sp.problem.Buffers[k.buffer].DType, k.align, roundUp(k.size, remapGrain)}
	}
	top := sp.behindFixed()
	sp.replay(func(k *block) {
		key := poolOf(k)
		if pieces := free[key]; len(pieces) > 0 {
			k.offset = pieces[len(pieces)-1]
			free[key] = pieces[:len(pieces)-1]
			return
		}
		size := key.size
		if sp.segment > 0 {
			size = min(size, sp.segment)
		}
		k.offset = sp.fit(top, size, k.align)
		top = k.offset + size
	}, func(k *block) {
		free[poolOf(k)] = append(free[poolOf(k)], k.offset)
	})
}

// replay calls alloc and free for the movable blocks in the order of the steps; at each step
// frees, in the order of the blocks, come first.
func (sp *space) replay(alloc, free func(*block)) {
	byFirst := make([]*block, 0, len(sp.blocks))
	for i := range sp.blocks {
		if k := &sp.blocks[i]; k.movable() {
			byFirst = append(byFirst, k)
		}
	}
	byLast := slices.Clone(byFirst)
	slices.SortStableFunc(byFirst, func(a, b *block) int { return cmp.Compare(a.first, b.first) })
	slices.SortStableFunc(byLast, func(a, b *block) int { return cmp.Compare(a.last, b.last) })
	for _, k := range byFirst {
		for byLast[0].last <= k.first {
			free(byLast[0])
			byLast = byLast[1:]
		}
		if alloc(k); sp.givesUp(k) {
			return
		}
	}
}
