package arena

import "sync"

// Pool keeps the arenas of closed sessions for those to come. It holds at most a fixed number of
// idle arenas; who asks for more gets a fresh one.
type Pool struct {
	mu    sync.Mutex
	idle  []*Arena
	limit int
}

// NewPool makes a pool of at most limit idle arenas.
func NewPool(limit int) *Pool { return &Pool{limit: limit} }

// Get returns an arena for l: the smallest idle one that is large enough, else the largest, which
// then grows, else a new one. Its bytes are whatever the last user left.
func (p *Pool) Get(l *Layout) *Arena {
	p.mu.Lock()
	best := -1
	for i, a := range p.idle {
		if best < 0 || better(int64(cap(a.memory)), int64(cap(p.idle[best].memory)), l.size) {
			best = i
		}
	}
	if best < 0 {
		p.mu.Unlock()
		return New(l)
	}
	a := p.idle[best]
	p.idle[best] = p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	p.mu.Unlock()
	a.Rebind(l)
	return a
}

// better reports whether an arena of a bytes suits a need better than one of b bytes.
func better(a, b, need int64) bool {
	if a >= need && b >= need {
		return a < b
	}
	return a > b
}

// Put hands an arena back. When the pool is full, the smallest one is dropped.
func (p *Pool) Put(a *Arena) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, a)
	if len(p.idle) <= p.limit {
		return
	}
	smallest := 0
	for i, b := range p.idle {
		if cap(b.memory) < cap(p.idle[smallest].memory) {
			smallest = i
		}
	}
	last := len(p.idle) - 1
	p.idle[smallest], p.idle[last] = p.idle[last], nil
	p.idle = p.idle[:last]
}

// Bytes returns the memory that idle arenas hold.
func (p *Pool) Bytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	var sum int64
	for _, a := range p.idle {
		sum += int64(cap(a.memory))
	}
	return sum
}
