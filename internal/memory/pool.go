package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

var (
	// ErrFull: requests hold as much as they may; later there is room. The errors of a Pool are of this kind, and name the bound.
	ErrFull = errors.New("the server is full")
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
	freed chan struct{} // closed when borrowed memory is given back; nil if no request waits for that
}

type holding struct {
	bytes int64
	slots int
	lent  int64 // part of bytes that is borrowed and will be given back: see Borrow
}

// A fullError is an error of kind ErrFull. Its text names the bound that was met. It is formatted when it is read: a flood of refused
// requests must not wait for the formatting under the lock of the pool.
type fullError struct {
	format string
	held   int64 // requests or bytes that are held
	most   int64 // limit for all requests together
}

// Error implements error.
func (e *fullError) Error() string { return fmt.Sprintf(e.format+": try again later", e.held, e.most) }

// Is reports the kind.
func (e *fullError) Is(kind error) bool { return kind == ErrFull }

// NewPool makes a pool. A negative size is 0.
func NewPool(bytes int64, slots int) *Pool {
	return &Pool{bytes: max(0, bytes), slots: max(0, slots), peers: map[string]*holding{}}
}

// half is the number of slots that one peer may have, rounded up.
func (p *Pool) half() int { return p.slots - p.slots/2 }

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
	bytes int64 // pool.mu guards it, lent and left
	lent  int64 // part of bytes that is borrowed
	left  bool  // whether the request has ended
}

// Base is what a request takes before it sends anything: goroutines and buffers.
const Base = 64 << 10

// Enter gives a request of a peer a share, which the returned context carries. It fails with ErrFull.
func (p *Pool) Enter(ctx context.Context, peer string) (context.Context, *Share, error) {
	h, full := p.enter(peer)
	if h == nil {
		return ctx, nil, &full
	}
	s := &Share{pool: p, name: peer, peer: h}
	s.ctx = context.WithValue(ctx, shareKey{}, s)
	if err := s.Take(Base); err != nil {
		s.Leave()
		return ctx, nil, err
	}
	return s.ctx, s, nil
}

// enter takes a slot for a peer; h is nil if a bound was met. It allocates nothing for a peer that is refused: an allocation may have to
// help the garbage collector, and while it did so under the lock, all other requests would wait.
func (p *Pool) enter(peer string) (h *holding, full fullError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h = p.peers[peer]
	switch {
	case p.all.slots >= p.slots:
		return nil, fullError{"the server has %d requests under way and takes %d", int64(p.all.slots), int64(p.slots)}
	case h != nil && h.slots >= p.half():
		return nil, fullError{"this address has %d requests under way, and one address has at most half of the server's %d",
			int64(h.slots), int64(p.slots)}
	case h == nil:
		h = &holding{}
		p.peers[peer] = h
	}
	p.all.slots++
	h.slots++
	return h, fullError{}
}

type shareKey struct{}

// ShareOf returns the share that a context carries; nil for none.
func ShareOf(ctx context.Context) *Share {
	s, _ := ctx.Value(shareKey{}).(*Share)
	return s
}

// Asker returns a function that asks for memory for a request: its share, if the context carries one, else the context alone. A negative
// number gives temporary memory back, as tokenizer.Ask does.
func Asker(ctx context.Context) func(bytes int64) error {
	if s := ShareOf(ctx); s != nil {
		return func(n int64) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if n < 0 {
				s.Give(-n)
				return nil
			}
			return s.Take(n)
		}
	}
	return func(int64) error { return ctx.Err() }
}

// Take asks for memory that is about to be allocated. It fails with ErrFull, with ErrOver, or with the error of the request's context. A
// negative size is one whose computation overflowed: ErrOver. A request that has ended gets nothing: context.Canceled.
func (s *Share) Take(n int64) error {
	if s == nil {
		return nil
	}
	if err := s.ctx.Err(); err != nil {
		return err
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.take(n)
}

// take is Take for a request that is not nil. pool.mu is held.
func (s *Share) take(n int64) error {
	p := s.pool
	half := p.bytes / 2
	switch {
	case s.left:
		return context.Canceled
	case n < 0 || n > half-s.bytes:
		return ErrOver
	case n > p.bytes-p.all.bytes:
		return &fullError{"requests hold %d of the %d bytes that they may hold", p.all.bytes, p.bytes}
	case n > half-s.peer.bytes:
		return &fullError{"the requests of this address hold %d bytes, and one address has at most half of the %d bytes for requests",
			s.peer.bytes, p.bytes}
	}
	s.add(n)
	return nil
}

// lendable is the part of the memory, one half, that several borrowers may have together. The rest is for bodies that arrive meanwhile,
// which do not wait. A single borrower may have more.
const lendable = 2

// Borrow asks for memory that is needed for a short time, such as that of decoding an image, and returns what gives it back. A borrower
// must not borrow more before it has given back, nor wait for other requests. Where there is no room, Borrow waits while memory is lent,
// to this request or to others. It fails as Take does if none is lent, and with ErrOver if the request can never have so much.
func Borrow(ctx context.Context, n int64) (back func(), err error) {
	s := ShareOf(ctx)
	if s == nil {
		return func() {}, ctx.Err()
	}
	p := s.pool
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p.mu.Lock()
		mayWait := p.all.lent > 0 && !s.left && n >= 0 && n <= p.bytes/2-(s.bytes-s.lent)
		fits := p.all.lent+n <= p.bytes/lendable && (s.peer.lent == 0 || s.peer.lent+n <= p.bytes/2/lendable)
		if fits || !mayWait {
			err := s.take(n)
			if err == nil {
				s.lend(n)
				p.mu.Unlock()
				return sync.OnceFunc(func() { s.giveBack(n) }), nil
			}
			if !mayWait {
				p.mu.Unlock()
				return nil, err
			}
		}
		if p.freed == nil {
			p.freed = make(chan struct{})
		}
		freed := p.freed
		p.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
		}
	}
}

// lend adds bytes, which may be negative, to what is borrowed. pool.mu is held.
func (s *Share) lend(n int64) {
	s.lent += n
	s.peer.lent += n
	s.pool.all.lent += n
}

// giveBack gives back borrowed memory, and wakes those that wait for it.
func (s *Share) giveBack(n int64) {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.lend(-n)
	if !s.left {
		s.add(-n)
	}
	if p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
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

// Give gives back memory that was taken. A size that is negative, or more than the request holds, was computed wrongly and changes nothing.
func (s *Share) Give(n int64) {
	if s == nil {
		return
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if n >= 0 && n <= s.bytes {
		s.add(-n)
	}
}

// add adds bytes, which may be negative, to what the request, its peer and all requests hold. pool.mu is held.
func (s *Share) add(n int64) {
	s.bytes += n
	s.peer.bytes += n
	s.pool.all.bytes += n
}

// Leave gives back all, once. What still works for the request afterwards gets nothing more.
func (s *Share) Leave() {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.left {
		return
	}
	s.left = true
	s.add(-s.bytes)
	p.all.slots--
	if s.peer.slots--; s.peer.slots == 0 {
		delete(p.peers, s.name)
	}
}

// Reader reads a body of at most that many bytes, for as long as the request lasts. It fails with ErrLong beyond them. A caller that keeps
// what it reads takes the memory itself.
func (s *Share) Reader(body io.Reader, most int64) io.Reader {
	return &bodyReader{share: s, body: body, left: most}
}

type bodyReader struct {
	share *Share
	body  io.Reader
	left  int64
	ended error // error that came with the last bytes of the body; nil before
}

// Read implements io.Reader.
func (r *bodyReader) Read(b []byte) (int, error) {
	if r.ended != nil { // net/http ends the context of a request whose body it cannot read: the error of the body explains more
		return 0, r.ended
	}
	if err := r.share.Take(0); err != nil {
		return 0, err
	}
	n, err := r.body.Read(b)
	r.ended = err
	if r.left -= int64(n); r.left < 0 {
		return 0, ErrLong
	}
	return n, err
}
