package memory

import (
	"context"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// sizes are those that a caller may ask for: small ones, about the bounds of a pool of 16 Base, and what overflows makes.
func sizes() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(0, 3*Base), rapid.Int64Range(7*Base-2, 8*Base+2), rapid.Int64Range(-3, 3),
		rapid.Int64Range(math.MinInt64, math.MaxInt64), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, math.MaxInt64 - Base}))
}

// A modelled request is what the account should hold of a request.
type modelled struct {
	share  *Share
	cancel context.CancelFunc
	peer   string
	bytes  int64
	ended  bool // its context has
	left   bool
}

// TestAnyOrderLeavesThePoolRight takes, grows, gives back, cancels and leaves in any order, for requests of three peers, also after a
// request has left. After each step the pool holds the sum of what its requests took, each peer at most half of it, and nothing of a
// request that has left.
func TestAnyOrderLeavesThePoolRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes, slots := rapid.SampledFrom([]int64{16 * Base, 16*Base + 1, 5 * Base}).Draw(t, "bytes"), rapid.IntRange(1, 5).Draw(t, "slots")
		p := NewPool(bytes, slots)
		var all []*modelled
		held := func(peer string) (bytes int64, slots int) {
			for _, r := range all {
				if !r.left && (peer == "" || r.peer == peer) {
					bytes += r.bytes
					slots++
				}
			}
			return bytes, slots
		}
		one := func(t *rapid.T) *modelled {
			if len(all) == 0 {
				t.Skip("no requests")
			}
			return all[rapid.IntRange(0, len(all)-1).Draw(t, "request")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"enter": func(t *rapid.T) {
				peer := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "peer")
				allBytes, allSlots := held("")
				peerBytes, peerSlots := held(peer)
				ctx, cancel := context.WithCancel(context.Background())
				_, s, err := p.Enter(ctx, peer)
				fits := allSlots < slots && peerSlots < (slots+1)/2 && allBytes+Base <= bytes && peerBytes+Base <= bytes/2
				require.Equal(t, fits, err == nil)
				if err != nil {
					cancel()
					require.ErrorIs(t, err, ErrFull)
					return
				}
				all = append(all, &modelled{share: s, cancel: cancel, peer: peer, bytes: Base})
			},
			"take": func(t *rapid.T) {
				r, n := one(t), sizes().Draw(t, "size")
				allBytes, _ := held("")
				peerBytes, _ := held(r.peer)
				err := r.share.Take(n)
				switch {
				case r.ended || r.left:
					require.ErrorIs(t, err, context.Canceled)
				case n < 0 || n > bytes/2-r.bytes:
					require.ErrorIs(t, err, ErrOver)
				case n > bytes/2-peerBytes || n > bytes-allBytes:
					require.ErrorIs(t, err, ErrFull)
				default:
					require.NoError(t, err)
					r.bytes += n
				}
			},
			"give back": func(t *rapid.T) {
				r, n := one(t), sizes().Draw(t, "size")
				r.share.Give(n)
				if n >= 0 && n <= r.bytes {
					r.bytes -= n
				}
			},
			"cancel": func(t *rapid.T) {
				r := one(t)
				r.cancel()
				r.ended = true
			},
			"leave": func(t *rapid.T) {
				r := one(t)
				r.share.Leave()
				r.left, r.bytes = true, 0
			},
			"": func(t *rapid.T) {
				wantBytes, wantSlots := held("")
				gotBytes, gotSlots := p.Held()
				require.Equal(t, []int64{wantBytes, int64(wantSlots)}, []int64{gotBytes, int64(gotSlots)})
				for _, peer := range []string{"a", "b", "c"} {
					bytes, slots := held(peer)
					if slots == 0 {
						require.NotContains(t, p.peers, peer)
						continue
					}
					require.Equal(t, holding{bytes: bytes, slots: slots}, *p.peers[peer])
					require.LessOrEqual(t, bytes, p.bytes/2)
				}
				for _, r := range all {
					require.Equal(t, r.bytes, r.share.Bytes())
				}
			},
		})
		for _, r := range all {
			r.share.Leave()
			r.cancel()
		}
		gotBytes, gotSlots := p.Held()
		require.Zero(t, gotBytes)
		require.Zero(t, gotSlots)
		require.Empty(t, p.peers)
	})
}

// TestAnyOrderLeavesTheAccountRight: an account of a run has used what was taken and not returned, never less than 0, whatever sizes its
// methods are called with.
func TestAnyOrderLeavesTheAccountRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, used := &Account{Limit: 16 * Base}, int64(0)
		returned := func(n int64) { used -= max(0, min(n, used)) }
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				n := sizes().Draw(t, "size")
				fits, err := a.Fits(n), a.Take(n)
				require.Equal(t, fits, err)
				if n < 0 || n > a.Limit-used {
					var over *Error
					require.ErrorAs(t, err, &over)
					require.Greater(t, over.Need, a.Limit)
					return
				}
				require.NoError(t, err)
				used += n
			},
			"give": func(t *rapid.T) { n := sizes().Draw(t, "size"); a.Give(n); returned(n) },
			"pass": func(t *rapid.T) { n := sizes().Draw(t, "size"); a.Pass(n); returned(n) },
			"":     func(t *rapid.T) { require.Equal(t, used, a.Used); require.GreaterOrEqual(t, a.loose, int64(0)) },
		})
	})
}

// TestSizesDoNotWrapAround holds Sum and Product to arithmetic without bounds.
func TestSizesDoNotWrapAround(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(sizes(), 0, 4).Draw(t, "sizes")
		sum, product, wrong := new(big.Int), big.NewInt(1), false
		for i, n := range all {
			sum.Add(sum, big.NewInt(n))
			if i < 2 {
				product.Mul(product, big.NewInt(n))
			}
			wrong = wrong || n < 0
		}
		bounded := func(x *big.Int, wrong bool) int64 {
			if wrong || !x.IsInt64() {
				return Most
			}
			return x.Int64()
		}
		require.Equal(t, bounded(sum, wrong), Sum(all...))
		if len(all) > 1 {
			require.Equal(t, bounded(product, all[0] < 0 || all[1] < 0), Product(all[0], all[1]))
		}
	})
}
