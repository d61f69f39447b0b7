package memory

import (
	"context"
	"errors"
	"io"
	"sync"
)

var (
	// ErrFull: requests hold as much as they may; later there is room.
	ErrFull = errors.New("the memory for requests is full")
	// ErrOver: one request asks for more than a peer may hold.
	ErrOver = errors.New("the request needs more memory than one request may use")
	// ErrLong: a body is longer than a body may be.
	ErrLong = errors.New("the body is longer than the limit")
)

// A Pool is what the requests of a server may hold together: slots, and bytes. A peer has at most half of both, so that one alone shuts
// out no other.
type Pool struct {
	bytes int64
	slots int

	mu    sync.Mutex
	all   holding
	peers map[string]*holding
}

type holding struct {
	bytes int64
	slots int
}

// NewPool makes a pool.
func NewPool(bytes int64, slots int) *Pool {
	return &Pool{bytes: bytes, slots: slots, peers: map[string]*holding{}}
}

// Held returns what requests hold now.
func (p *Pool) Held() (bytes int64, slots int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.bytes, p.all.slots
}

// A Share is what one request holds, from its first byte to the last of its answer. What is made for the request asks it before memory
// is allocated, and so learns too that the request has ended. A nil Share bounds nothing. Many goroutines may use it.
type Share struct {
	pool  *Pool
	ctx   context.Context
	name  string
	peer  *holding
	bytes int64 // pool.mu guards it
}

// Base is what a request takes before it sends anything: goroutines and buffers.
const Base = 64 << 10

// Enter gives a request of a peer a share, which the returned context carries. It fails with ErrFull.
func (p *Pool) Enter(ctx context.Context, peer string) (context.Context, *Share, error) {
	p.mu.Lock()
	h := p.peers[peer]
	if h == nil {
		h = &holding{}
	}
	if p.all.slots >= p.slots || h.slots >= (p.slots+1)/2 {
		p.mu.Unlock()
		return ctx, nil, ErrFull
	}
	p.peers[peer] = h
	p.all.slots++
	h.slots++
	p.mu.Unlock()
	s := &Share{pool: p, name: peer, peer: h}
	s.ctx = context.WithValue(ctx, shareKey{}, s)
	if err := s.Take(Base); err != nil {
		s.Leave()
		return ctx, nil, err
	}
	return s.ctx, s, nil
}

type shareKey struct{}

// ShareOf returns the share that a context carries; nil for none.
func ShareOf(ctx context.Context) *Share {
	s, _ := ctx.Value(shareKey{}).(*Share)
	return s
}

// Asker returns what asks for memory for a request: its share, if the context carries one, and else the context alone.
func Asker(ctx context.Context) func(bytes int64) error {
	if s := ShareOf(ctx); s != nil {
		return func(n int64) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return s.Take(n)
		}
	}
	return func(int64) error { return ctx.Err() }
}

// Take asks for memory that is about to be allocated. It fails with ErrFull, ErrOver, or the error of the request's context.
func (s *Share) Take(n int64) error {
	if s == nil {
		return nil
	}
	if err := s.ctx.Err(); err != nil {
		return err
	}
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case n > p.bytes/2-s.bytes:
		return ErrOver
	case n > p.bytes-p.all.bytes || n > p.bytes/2-s.peer.bytes:
		return ErrFull
	}
	s.bytes += n
	s.peer.bytes += n
	p.all.bytes += n
	return nil
}

// Bytes returns what the request holds.
func (s *Share) Bytes() int64 {
	if s == nil {
		return 0
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.bytes
}

// Give gives back what was taken.
func (s *Share) Give(n int64) {
	if s == nil {
		return
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.give(n)
}

func (s *Share) give(n int64) {
	s.bytes -= n
	s.peer.bytes -= n
	s.pool.all.bytes -= n
}

// Leave gives back all. The share is not used afterwards.
func (s *Share) Leave() {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.give(s.bytes)
	p.all.slots--
	if s.peer.slots--; s.peer.slots == 0 {
		delete(p.peers, s.name)
	}
}

// Reader reads a body of at most that many bytes, for as long as the request lasts. It fails with ErrLong beyond them. Who keeps what is
// read
// takes the memory.
func (s *Share) Reader(body io.Reader, most int64) io.Reader { return &bodyReader{s, body, most} }

type bodyReader struct {
	share *Share
	body  io.Reader
	left  int64
}

// Read implements io.Reader.
func (r *bodyReader) Read(b []byte) (int, error) {
	if err := r.share.Take(0); err != nil {
		return 0, err
	}
	n, err := r.body.Read(b)
	if r.left -= int64(n); r.left < 0 {
		return 0, ErrLong
	}
	return n, err
}
