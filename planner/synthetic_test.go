package planner

import (
	"math/rand/v2"
)

// layeredGraph is a synthetic network of n buffers in layers of twelve steps: most results are read soon,
// the stream between the layers through the next one, and a quarter by a layer further down. 30 to
// 40 buffers live at a time.
func layeredGraph(n int, seed uint64) *Problem {
	rnd := rand.New(rand.NewPCG(seed, 0))
	sizes := []int64{1 << 10, 4 << 10, 12 << 10, 48 << 10, 64 << 10, 192 << 10, 768 << 10, 1 << 20}
	p := &Problem{Buffers: make([]Buffer, n)}
	for i := range p.Buffers {
		life := 2 + rnd.IntN(4)
		switch {
		case i%12 == 0:
			life = 14
		case rnd.IntN(4) == 0:
			life = 30 + rnd.IntN(200)
		}
		p.Buffers[i] = Buffer{ID: i, Size: sizes[(i%12+rnd.IntN(2))%len(sizes)], First: i, Last: i + life}
	}
	return p
}

// pieces cuts a rectangle of time and memory into n buffers that fill it: the lower bound is the
// height, and no byte may be wasted.
func pieces(n int, seed uint64) *Problem {
	rnd := rand.New(rand.NewPCG(seed, 0))
	const height = 1 << 30
	list := make([]Buffer, 1, n)
	list[0] = Buffer{Last: 10 * n, Size: height}
	for len(list) < n {
		i := rnd.IntN(len(list))
		b := &list[i]
		rest := *b
		if rnd.IntN(2) == 0 && b.Last-b.First > 1 {
			b.Last = b.First + 1 + rnd.IntN(b.Last-b.First-1)
			rest.First = b.Last
		} else if b.Size > 1 {
			b.Size = 1 + rnd.Int64N(b.Size-1)
			rest.Size -= b.Size
		} else {
			continue
		}
		rest.ID = len(list)
		list = append(list, rest)
	}
	return &Problem{Buffers: list}
}
