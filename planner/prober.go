package planner

import (
	"cmp"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// prober runs a skyline over some blocks of a space again and again, each time with other
// preferences and mostly for a short time: a search that went wrong early is better begun again
// (Luby, Sinclair and Zuckerman, "Optimal speedup of Las Vegas algorithms", 1993). The weights of
// the sections, which it learns, stay.
type prober struct {
	*skyline
	space  *space
	blocks []int32 // indices in the space, by number in the skyline
	round  int
}

// newProber makes a prober for blocks that may go anywhere rest leaves free.
func (sp *space) newProber(blocks []int32, rest *timeline) *prober {
	slices.SortFunc(blocks, cmp.Compare[int32])
	chosen := make([]block, len(blocks))
	size, padding := make([]int64, len(blocks)), make([]int64, len(blocks))
	for n, i := range blocks {
		chosen[n], size[n], padding[n] = sp.blocks[i], sp.blocks[i].size, sp.blocks[i].padding
	}
	from, to, sections := sectionsOf(chosen)
	walls := newWalls(sp, blocks, from, sections, rest)
	return &prober{skyline: newSkyline(from, to, size, padding, sections, walls), space: sp, blocks: blocks}
}

// preferences are the orders in which a niche is offered to the blocks: which rank, the largest
// first, a block has from its sections, size and present offset. Those that are listed twice are drawn
// more often.
var preferences = [...]func(length, size, offset float64) float64{
	byLength, byLength, bySize, bySize, bySmallness, byOffset, byOffset,
}

func byLength(length, size, _ float64) float64 { return length + size*1e-9 }
func bySize(_, size, _ float64) float64        { return size }
func bySmallness(_, size, _ float64) float64   { return 1 / size }
func byOffset(_, _, offset float64) float64    { return 1 / (1 + offset) }

// youth is how many rounds of a prober are short and as often as not at the lower bound.
const youth = 64

// followNoise is by how much ranks vary in a try that follows another.
const followNoise = .1

// probe searches for offsets that end at or below the limit; where it finds none, it reports whether there are none. It is deterministic
// in the blocks and in how often it was called. After its youth, every second try follows the one before it: its blocks have the order
// that they had at the dead end that covered most. Restarts of SAT solvers keep phases likewise (Pipatsrisawat and Darwiche, 2007), and
// those of schedulers solutions (Beck, "Solution-guided multi-point constructive search for job shop scheduling", JAIR 29, 2007).
func (p *prober) probe(limit int64, effort int, work int64) (found, none bool) {
	fails := 100
	if p.round > youth { // what short tries find is found by now
		fails = 300
	}
	rnd := rand.New(rand.NewPCG(uint64(p.round), 0))
	draw := func(choices ...float64) float64 { return choices[rnd.IntN(len(choices))] }
	p.waste = [2]float64{draw(.3, 1, 2), draw(2, 5, 10, 20)}
	p.weighted = rnd.IntN(2) == 0
	p.strict = rnd.IntN(4) == 0
	noise := draw(.05, .3, 1)
	rank := preferences[rnd.IntN(len(preferences))]
	follow := p.round > youth && rnd.IntN(2) == 0
	if follow {
		rank, noise = byOffset, followNoise
	}
	for n, i := range p.blocks {
		at := p.space.blocks[i].offset
		if follow {
			at = p.guide[n]
		}
		r := rank(float64(p.to[n]-p.from[n]), float64(p.size[n]), float64(at))
		p.prefer[n] = r * (1 + noise*rnd.Float64())
	}
	p.sinking = !p.rigid && p.round&2 != 0 // two of four tries, as arrange alternates between two aims
	p.round++
	return p.run(limit, fails*effort*luby(p.round), work)
}

// luby returns the i-th term, from 1, of 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 …
func luby(i int) int {
	k := bits.Len(uint(i))
	if i == 1<<k-1 {
		return 1 << (k - 1)
	}
	return luby(i - 1<<(k-1) + 1)
}
