package planner

import (
	"math/rand/v2"
)

// tape records a program as it would run: each op writes buffers at one step and reads older ones, whose lives it prolongs.
type tape struct {
	rnd     *rand.Rand
	buffers []Buffer
	step    int
}

func newTape(seed uint64) *tape { return &tape{rnd: rand.New(rand.NewPCG(seed, 0))} }

// op runs one step: it reads some buffers and writes one of that many bytes, which it returns.
func (t *tape) op(bytes int64, reads ...int) int {
	t.read(reads...)
	id := len(t.buffers)
	t.buffers = append(t.buffers, Buffer{ID: id, Size: bytes, First: t.step, Last: t.step + 1})
	t.step++
	return id
}

// beside writes one more buffer at the step of the last op: statistics, a mask, scratch memory.
func (t *tape) beside(bytes int64) int {
	id := len(t.buffers)
	t.buffers = append(t.buffers, Buffer{ID: id, Size: bytes, First: t.step - 1, Last: t.step})
	return id
}

// read keeps buffers until the present step.
func (t *tape) read(buffers ...int) {
	for _, id := range buffers {
		t.buffers[id].Last = t.step + 1
	}
}

// problem ends the recording.
func (t *tape) problem() *Problem { return &Problem{Buffers: t.buffers} }
