package memory

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPool: what two peers may hold, apart and together, and what they give back.
func TestPool(t *testing.T) {
	p := NewPool(16*Base, 4)
	held := func(bytes int64, slots int) {
		t.Helper()
		b, n := p.Held()
		require.Equal(t, []any{bytes, slots}, []any{b, n})
	}
	enter := func(peer string) *Share {
		ctx, s, err := p.Enter(t.Context(), peer)
		require.NoError(t, err)
		require.Same(t, s, ShareOf(ctx))
		require.EqualValues(t, Base, s.Bytes())
		return s
	}
	a, b := enter("one"), enter("one")
	held(2*Base, 2)
	_, _, err := p.Enter(t.Context(), "one")
	require.ErrorIs(t, err, ErrFull, "a peer has half of the slots")
	c, d := enter("two"), enter("two")
	_, _, err = p.Enter(t.Context(), "three")
	require.ErrorIs(t, err, ErrFull)
	held(4*Base, 4)

	require.ErrorIs(t, a.Take(7*Base+1), ErrOver)
	require.NoError(t, a.Take(6*Base))
	require.ErrorIs(t, b.Take(1), ErrFull, "a peer has half of the bytes")
	require.NoError(t, c.Take(6*Base))
	held(16*Base, 4)
	a.Give(2 * Base)
	require.EqualValues(t, 5*Base, a.Bytes())
	require.NoError(t, b.Take(2*Base))
	a.Leave()
	held(11*Base, 3)
	b.Leave()
	require.ErrorIs(t, c.Take(1), ErrFull)
	c.Leave()
	d.Leave()
	held(0, 0)
	require.Empty(t, p.peers)

	small := NewPool(Base, 2) // which has no room for a request
	_, s, err := small.Enter(t.Context(), "one")
	require.ErrorIs(t, err, ErrOver)
	require.Nil(t, s)
	require.Zero(t, small.all.slots+len(small.peers))
	odd := NewPool(16*Base, 3) // of which a peer has two slots
	for _, want := range []error{nil, nil, ErrFull} {
		_, _, err := odd.Enter(t.Context(), "one")
		require.ErrorIs(t, err, want)
	}
	crowded := NewPool(16*Base, 16) // more than a peer's half, and less than all
	_, big, err := crowded.Enter(t.Context(), "one")
	require.NoError(t, err)
	require.NoError(t, big.Take(7*Base))
	_, _, err = crowded.Enter(t.Context(), "one")
	require.ErrorIs(t, err, ErrFull)
	held2, slots := crowded.Held()
	require.Equal(t, []int64{8 * Base, 1}, []int64{held2, int64(slots)})
}

// TestShareOfNothing bounds nothing, and asks the context alone.
func TestShareOfNothing(t *testing.T) {
	var s *Share
	require.NoError(t, s.Take(1<<60))
	s.Give(1)
	require.Zero(t, s.Bytes())
	ctx, end := context.WithCancel(t.Context())
	require.Nil(t, ShareOf(ctx))
	require.NoError(t, Asker(ctx)(1<<60))
	end()
	require.ErrorIs(t, Asker(ctx)(0), context.Canceled)
}

// TestEndedRequests ask in vain, and read no more of their bodies.
func TestEndedRequests(t *testing.T) {
	outer, end := context.WithCancel(t.Context())
	ctx, s, err := NewPool(16*Base, 2).Enter(outer, "one")
	require.NoError(t, err)
	inner, stop := context.WithCancel(ctx)
	require.NoError(t, Asker(inner)(5))
	require.EqualValues(t, Base+5, s.Bytes())
	require.ErrorIs(t, Asker(inner)(8*Base), ErrOver)
	require.NoError(t, Asker(inner)(-3))
	require.EqualValues(t, Base+2, s.Bytes())
	require.NoError(t, Asker(inner)(-2*Base))
	require.EqualValues(t, Base+2, s.Bytes(), "it holds less")
	stop()
	require.ErrorIs(t, Asker(inner)(1), context.Canceled)
	require.NoError(t, s.Take(1))
	for most, want := range map[int64]error{4: nil, 3: ErrLong} {
		_, err := io.ReadAll(s.Reader(strings.NewReader("text"), most))
		require.ErrorIs(t, err, want)
	}
	end()
	require.ErrorIs(t, s.Take(0), context.Canceled)
	_, err = s.Reader(strings.NewReader("text"), 9).Read(make([]byte, 9))
	require.ErrorIs(t, err, context.Canceled)
}

// lastBytes is a body that ends the request's context with its last bytes, as that of net/http does when the client is too slow.
type lastBytes struct{ end func() }

func (r lastBytes) Read(b []byte) (int, error) { r.end(); return copy(b, "text"), io.ErrUnexpectedEOF }

// TestErrorsOfBodiesAreKept: an error that comes with the last bytes of a body is the error of the next read, too, and not that of the
// request's context.
func TestErrorsOfBodiesAreKept(t *testing.T) {
	outer, end := context.WithCancel(t.Context())
	_, s, err := NewPool(16*Base, 2).Enter(outer, "one")
	require.NoError(t, err)
	defer s.Leave()
	r, b := s.Reader(lastBytes{end}, 9), make([]byte, 9)
	n, err := r.Read(b)
	require.Equal(t, 4, n)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	n, err = r.Read(b)
	require.Zero(t, n)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// TestBorrowersWaitForEachOther: requests that together borrow more than the pool holds all get their memory, one after the other.
func TestBorrowersWaitForEachOther(t *testing.T) {
	p := NewPool(64*Base, 100)
	var now, most atomic.Int64
	var all sync.WaitGroup
	for i := range 20 {
		ctx, share, err := p.Enter(t.Context(), fmt.Sprint("peer ", i%3))
		require.NoError(t, err)
		all.Go(func() {
			defer share.Leave()
			var parts sync.WaitGroup
			for range 3 { // of one request, at once
				parts.Go(func() {
					back, err := Borrow(ctx, 8*Base)
					if err != nil {
						t.Error(err)
						return
					}
					defer back()
					for n := now.Add(8 * Base); ; {
						if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
							break
						}
					}
					runtime.Gosched()
					now.Add(-8 * Base)
				})
			}
			parts.Wait()
		})
	}
	all.Wait()
	require.LessOrEqual(t, most.Load(), int64(32*Base), "borrowers have half of the pool")
	require.Equal(t, NewPool(64*Base, 100), p, "nothing is left")
}

func TestBorrowFailsWhereWaitingIsInVain(t *testing.T) {
	p := NewPool(64*Base, 4)
	enter := func(peer string) (context.Context, *Share) {
		ctx, share, err := p.Enter(t.Context(), peer)
		require.NoError(t, err)
		t.Cleanup(share.Leave)
		return ctx, share
	}
	a, shareA := enter("a")
	_, err := Borrow(a, 32*Base)
	require.ErrorIs(t, err, ErrOver, "with the base it is more than half")
	_, err = Borrow(a, -1)
	require.ErrorIs(t, err, ErrOver)
	back, err := Borrow(a, 24*Base)
	require.NoError(t, err)
	_, err = Borrow(a, 32*Base)
	require.ErrorIs(t, err, ErrOver, "also while memory is lent")
	_, shareB := enter("b")
	require.NoError(t, shareB.Take(30*Base))
	require.Error(t, shareB.Take(2*Base))
	d, shareD := enter("d")
	cancelled, cancel := context.WithCancel(d)
	ended := make(chan error)
	go func() { _, err := Borrow(cancelled, 13*Base); ended <- err }()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	shareD.Leave()
	back()
	back() // once counts
	bytes, _ := p.Held()
	require.Equal(t, int64(32*Base), bytes)
	require.NoError(t, shareA.Take(31*Base))
	c, shareC := enter("c")
	_, err = Borrow(c, 1)
	require.ErrorIs(t, err, ErrFull, "nobody gives memory back")
	shareA.Leave()
	back, err = Borrow(c, Base)
	require.NoError(t, err)
	shareC.Leave()
	back()
	bytes, _ = p.Held()
	require.Equal(t, int64(31*Base), bytes)

	back, err = Borrow(t.Context(), 1<<50)
	require.NoError(t, err, "without a share nothing is bounded")
	back()
}
