package planner

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

func TestExp(t *testing.T) {
	budget, _ := strconv.ParseInt(os.Getenv("BUDGET"), 10, 64)
	comb := func(rnd *rand.Rand, i int) Buffer {
		b := Buffer{First: i, Last: i + 1, Size: 64 << rnd.IntN(12)}
		if i%2 == 0 {
			b.Last = i + 50 + rnd.IntN(400)
		}
		return b
	}
	dense := func(rnd *rand.Rand, i int) Buffer {
		first := rnd.IntN(1000)
		return Buffer{First: first, Last: first + 1 + rnd.IntN(200), Size: 1 + rnd.Int64N(1<<16)}
	}
	for _, c := range []struct {
		n string
		c int
		f func(*rand.Rand, int) Buffer
	}{{"comb", 1000, comb}, {"comb", 2000, comb}, {"comb", 5000, comb}, {"dense", 2000, dense}, {"dense", 5000, dense}} {
		rnd := rand.New(rand.NewPCG(uint64(c.c), 1))
		p := &Problem{}
		for i := range c.c {
			b := c.f(rnd, i)
			b.ID = i
			p.Buffers = append(p.Buffers, b)
		}
		begin := time.Now()
		pl := solve(t, p, Options{Mode: Optimal, Budget: budget})
		t.Logf("%s %d: %.4f work %.2e in %v", c.n, c.c, pl.Ratio(), float64(pl.Work), time.Since(begin))
	}
}
