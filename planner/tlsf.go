package planner

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"
)

// placeTLSF gives each lane of the device an arena of its own.
func placeTLSF(sp *space, o *Options) { sp.copies = sp.placeLanes(o) }

// placeLanes replays each lane of the device on an allocator, and returns where the memory of the copy lane begins, as in space.copies.
// From the bottom up there are: all fixed blocks, whatever their lane; the movable blocks of the compute lane; the movable blocks of the
// copy lane.
func (sp *space) placeLanes(o *Options) (copies int64) {
	var lanes [2][]*block // the movable blocks of the compute lane and of the copy lane
	computes, align := false, int64(1)
	for i := range sp.blocks {
		k, lane := &sp.blocks[i], 0
		if sp.problem.Buffers[k.buffer].Lane.Copy {
			lane = 1
		}
		computes = computes || lane == 0 && k.size > 0
		if k.movable() {
			lanes[lane] = append(lanes[lane], k)
			if lane == 1 {
				align = max(align, k.align)
			}
		}
	}
	base := sp.behindFixed()
	top := sp.replayLevels(lanes[0], base, false, !o.ArenaNoReuse)
	top = roundUp(top, align)
	if sp.segment > 0 && computes {
		top = (top + sp.segment - 1) / sp.segment * sp.segment
	}
	sp.replayLevels(lanes[1], top, true, !o.ArenaNoReuse)
	switch {
	case len(lanes[1]) == 0:
		return math.MaxInt64
	case !computes:
		return 0
	}
	return top
}

// replayLevels places blocks of one lane, from base on, by a replay of the steps on a TLSF allocator. It returns the end of the highest
// block. It serves executors that run the nodes of one execution level in any order: a block is freed for the blocks that follow only when
// every one of them is at a deeper level than its last reader and at a later step, so that ordering edges between unrelated nodes are not
// needed. Blocks of a copy lane are held for the length of their life once more, since a copy may still be under way. Without reuse nothing
// is freed.
func (sp *space) replayLevels(queue []*block, base int64, copies, reuse bool) (top int64) {
	slices.SortStableFunc(queue, func(a, b *block) int { // in the order of allocation
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.first, b.first))
	})
	frees := releases(queue, copies)
	alloc, free := sp.allocator(base)
	top = base
	for i, k := range queue {
		for _, dead := range frees[i] {
			if reuse {
				free(dead)
			}
		}
		alloc(k)
		if top = max(top, k.end()); sp.givesUp(k) {
			break
		}
	}
	return top
}

// placeBackwards replays the steps from the last to the first on a TLSF allocator.
func (sp *space) placeBackwards() {
	back := *sp
	back.blocks = slices.Clone(sp.blocks)
	for i := range back.blocks {
		k := &back.blocks[i]
		k.first, k.last = -k.last, -k.first
	}
	back.replay(back.allocator(back.behindFixed()))
	for i := range back.blocks {
		sp.blocks[i].offset = back.blocks[i].offset
	}
	sp.work += int64(replayWork * len(sp.blocks))
}

// replayWork is what an allocator takes for a block, in units of work.
const replayWork = 50

// allocator returns the functions that place and free blocks, all of them at base or above.
func (sp *space) allocator(base int64) (alloc, free func(*block)) {
	heap := newTLSF()
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
			panic(err) // each block is freed once, after its allocation
		}
	}
	return alloc, free
}

// releases returns, for each place in the queue, the blocks that become free there.
func releases(queue []*block, copies bool) [][]*block {
	earliest := make([]int, len(queue)) // lowest first step of this block and all later ones
	for i := len(queue) - 1; i >= 0; i-- {
		earliest[i] = queue[i].first
		if i+1 < len(queue) {
			earliest[i] = min(earliest[i], earliest[i+1])
		}
	}
	frees := make([][]*block, len(queue)+1)
	for _, k := range queue {
		end := k.last
		if copies {
			end += k.last - k.first
		}
		at := sort.Search(len(queue), func(i int) bool { return queue[i].level > k.lastLevel && earliest[i] >= end })
		frees[at] = append(frees[at], k)
	}
	return frees
}

// tlsf is a two-level segregated fit allocator over addresses (Masmano, Ripoll, Crespo and Real,
// "TLSF: a new dynamic memory allocator for real-time systems", ECRTS 2004): free chunks are in
// lists by the bit length of their size and, within that, in one of 64 buckets. Two bitmaps find
// the next list that is not empty.
type tlsf struct {
	chunks []chunk
	used   map[int64]int32 // chunk by offset
	freed  map[int64]bool  // offsets given back and not handed out since: a second free is distinguished
	levels uint64          // bit lengths that have a free chunk
	bins   [64]uint64      // buckets of each bit length that have a free chunk
	heads  [64][tlsfBuckets]int32
}

const (
	tlsfBuckets    = 1 << tlsfBucketBits
	tlsfBucketBits = 6
	noChunk        = -1
)

// chunk is a piece of a pool. Neighbours in memory and in the free list are indices of chunks.
type chunk struct {
	offset, size  int64
	below, above  int32
	before, after int32
	free          bool
}

var errOutOfMemory = errors.New("out of memory")

func newTLSF() *tlsf {
	t := &tlsf{used: map[int64]int32{}, freed: map[int64]bool{}}
	for i := range t.heads {
		for j := range t.heads[i] {
			t.heads[i][j] = noChunk
		}
	}
	return t
}

// addPool hands size bytes from offset on to the allocator. Pools never merge.
func (t *tlsf) addPool(offset, size int64) {
	t.chunks = append(t.chunks, chunk{offset: offset, size: size, below: noChunk, above: noChunk})
	t.link(int32(len(t.chunks) - 1))
}

// bin returns the list of a size.
func bin(size int64) (level, bucket int) {
	level = bits.Len64(uint64(size))
	if level <= tlsfBucketBits {
		return level, int(size)
	}
	return level, int(size>>(level-1-tlsfBucketBits)) & (tlsfBuckets - 1)
}

func (t *tlsf) link(c int32) {
	k := &t.chunks[c]
	level, bucket := bin(k.size)
	head := &t.heads[level][bucket]
	k.free, k.before, k.after = true, noChunk, *head
	if *head != noChunk {
		t.chunks[*head].before = c
	}
	*head = c
	t.levels |= 1 << level
	t.bins[level] |= 1 << bucket
}

func (t *tlsf) unlink(c int32) {
	k := &t.chunks[c]
	level, bucket := bin(k.size)
	if k.before != noChunk {
		t.chunks[k.before].after = k.after
	} else {
		t.heads[level][bucket] = k.after
	}
	if k.after != noChunk {
		t.chunks[k.after].before = k.before
	}
	k.free = false
	if t.heads[level][bucket] == noChunk {
		if t.bins[level] &^= 1 << bucket; t.bins[level] == 0 {
			t.levels &^= 1 << level
		}
	}
}

// find returns the first free chunk that has size bytes at the alignment, or noChunk. It starts with the list for this size.
func (t *tlsf) find(size, align int64) int32 {
	level, bucket := bin(size)
	for levels := t.levels >> level << level; levels != 0; levels &= levels - 1 {
		l := bits.TrailingZeros64(levels)
		buckets := t.bins[l]
		if l == level {
			buckets = buckets >> bucket << bucket
		}
		for ; buckets != 0; buckets &= buckets - 1 {
			for c := t.heads[l][bits.TrailingZeros64(buckets)]; c != noChunk; c = t.chunks[c].after {
				if k := &t.chunks[c]; roundUp(k.offset, align)+size <= k.offset+k.size {
					return c
				}
			}
		}
	}
	return noChunk
}

// alloc returns the offset of size free bytes.
func (t *tlsf) alloc(size, align int64) (int64, error) {
	c := t.find(size, align)
	if c == noChunk {
		return 0, fmt.Errorf("%d bytes aligned to %d: %w", size, align, errOutOfMemory)
	}
	t.unlink(c)
	if pad := roundUp(t.chunks[c].offset, align) - t.chunks[c].offset; pad > 0 {
		rest := t.split(c, pad)
		t.link(c)
		c = rest
	}
	if t.chunks[c].size > size {
		t.link(t.split(c, size))
	}
	offset := t.chunks[c].offset
	t.used[offset] = c
	delete(t.freed, offset)
	return offset, nil
}

// split cuts chunk c after size bytes and returns the part after it.
func (t *tlsf) split(c int32, size int64) int32 {
	k := &t.chunks[c]
	rest := chunk{offset: k.offset + size, size: k.size - size, below: c, above: k.above}
	n := int32(len(t.chunks))
	if k.above != noChunk {
		t.chunks[k.above].below = n
	}
	k.size, k.above = size, n
	t.chunks = append(t.chunks, rest)
	return n
}

// free releases the memory at offset and merges it with free neighbours on both sides.
func (t *tlsf) free(offset int64) error {
	c, ok := t.used[offset]
	if !ok {
		if t.freed[offset] {
			return fmt.Errorf("offset %d was freed twice", offset)
		}
		return fmt.Errorf("offset %d was never allocated", offset)
	}
	delete(t.used, offset)
	t.freed[offset] = true
	if above := t.chunks[c].above; above != noChunk && t.chunks[above].free {
		t.unlink(above)
		t.merge(c, above)
	}
	if below := t.chunks[c].below; below != noChunk && t.chunks[below].free {
		t.unlink(below)
		t.merge(below, c)
		c = below
	}
	t.link(c)
	return nil
}

// merge makes chunk c take in its neighbour above.
func (t *tlsf) merge(c, above int32) {
	k, a := &t.chunks[c], &t.chunks[above]
	k.size += a.size
	k.above = a.above
	if a.above != noChunk {
		t.chunks[a.above].below = c
	}
}
