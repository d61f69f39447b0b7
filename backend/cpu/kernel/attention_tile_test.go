package kernel

import (
	"fmt"
	"testing"
)

// TestAttentionTile takes every tile, alone and after others, with full and cut vectors, at the first block of keys and at another, with A
// of both orientations.
func TestAttentionTile(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		tile := &s.attention
		for _, n := range edges(tile.vec, tile.vecs()*tile.vec, 2*tile.vecs()*tile.vec) {
			tallest := len(tile.kernels[min(tile.vecs(), ceilDiv(n, tile.vec))]) - 1
			for m := range 2*tallest + 2 {
				for _, k := range []int{0, 1, 2, 33} {
					for form := range 8 {
						scaled, factored, transposed := form&1 != 0, form&2 != 0, form&4 != 0
						p := attentionProduct{m: m, n: n, k: k, aRow: k + 1, aCol: 1, bRow: roundUp(n, tile.vec) + 1, cRow: n + 2}
						if transposed {
							p.aRow, p.aCol = 1, m+3
						}
						a, b, c := random(r, (m+3)*(k+1)), random(r, k*p.bRow), newGuarded(m*p.cRow, r.IntN(16))
						scale, factor := random(r, m), random(r, m)
						p.a, p.b, p.c = a.inner, b.inner, c.inner
						if scaled {
							p.scale = scale.inner
							for i := range m {
								copy(c.inner[i*p.cRow:], random(r, n).inner)
							}
						}
						if factored {
							p.factor = factor.inner
						}
						before := append([]float32(nil), c.inner...)
						what := fmt.Sprintf("%d×%d×%d, form %d", m, n, k, form)
						s.multiply(&p)
						c.checkGaps(t, what, p.cRow, n)
						for i := range m {
							for j := range n {
								var want float64
								for l := range k {
									want += float64(p.a[i*p.aRow+l*p.aCol]) * float64(p.b[l*p.bRow+j])
								}
								if scaled {
									want += float64(before[i*p.cRow+j]) * float64(p.scale[i])
								}
								if factored {
									want *= float64(p.factor[i])
								}
								requireClose(t, want, c.inner[i*p.cRow+j], 3e-6, "%s: row %d column %d", what, i, j)
							}
						}
					}
				}
			}
		}
	})
}

// TestSoftmaxStep feeds columns in blocks of rows.
func TestSoftmaxStep(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		r := newRand()
		const rows, kinds = 75, softmaxKinds
		for vecs := 1; vecs <= 3; vecs++ {
			cols := vecs * s.attention.vec
			x := newGuarded(rows*cols, 1)
			scores := make([][]float32, cols)
			for c := range cols {
				scores[c] = random(r, rows).inner
				softmaxRow(c%kinds, scores[c])
				for i, score := range scores[c] {
					x.inner[i*cols+c] = score
				}
			}
			const by = 0.75
			state := newGuarded(4*cols, 2)
			highest, sum, scale, inverse := state.inner[:cols], state.inner[cols:2*cols], state.inner[2*cols:3*cols], state.inner[3*cols:]
			startSoftmax(highest, sum)
			sofar := make([]float64, cols*rows)
			for lo := 0; lo < rows; lo += 30 {
				hi := min(rows, lo+30)
				s.softmaxStep(&x.inner[lo*cols], hi-lo, cols, by, &highest[0], &sum[0], &scale[0], &inverse[0])
				for c := range cols {
					for i := range hi {
						if i < lo {
							sofar[c*rows+i] *= float64(scale[c])
						} else {
							sofar[c*rows+i] = float64(x.inner[i*cols+c])
						}
					}
				}
			}
			x.check(t, "softmax step")
			state.check(t, "softmax step")
			for c := range cols {
				for i := range scores[c] {
					scores[c][i] *= by
				}
				for i, want := range softmaxFloat64(scores[c]) {
					requireClose(t, want, float32(sofar[c*rows+i]*float64(inverse[c])), 3e-7, "%d columns: kind %d, row %d", cols,
						c%kinds, i)
				}
			}
		}
	})
}
