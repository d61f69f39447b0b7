package ir

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/tensor"
)

// A size is a Dim and what it is for numbers of a and b.
type size struct {
	dim Dim
	at  func(a, b int) int
}

// randomSize makes a size of at most depth operations.
func randomSize(r *rand.Rand, depth int) size {
	if depth == 0 || r.IntN(6) == 0 {
		switch n := r.IntN(9) - 2; r.IntN(3) {
		case 0:
			return size{Sym("a"), func(a, _ int) int { return a }}
		case 1:
			return size{Sym("b"), func(_, b int) int { return b }}
		default:
			return size{N(n), func(int, int) int { return n }}
		}
	}
	x, y := randomSize(r, depth-1), randomSize(r, depth-1)
	both := func(d Dim, f func(x, y int) int) size {
		return size{d, func(a, b int) int { return f(x.at(a, b), y.at(a, b)) }}
	}
	switch r.IntN(6) {
	case 0:
		return both(x.dim.Add(y.dim), func(x, y int) int { return x + y })
	case 1:
		return both(x.dim.Sub(y.dim), func(x, y int) int { return x - y })
	case 2:
		return both(x.dim.Mul(y.dim), func(x, y int) int { return x * y })
	case 3:
		return both(Min(x.dim, y.dim), func(x, y int) int { return min(x, y) })
	case 4:
		return both(Max(x.dim, y.dim), func(x, y int) int { return max(x, y) })
	}
	c := 1 + r.IntN(4)
	by, of := N(c), func(a int) int { return c }
	if r.IntN(2) == 0 {
		by, of = Sym("a").Add(N(c)), func(a int) int { return a + c }
	}
	return size{x.dim.Div(by), func(a, b int) int { return int(floorDiv(int64(x.at(a, b)), int64(of(a)))) }}
}

// TestRandomSizes: sizes in normal form are what their operations give, at all numbers; they print and parse; what is said about two of
// them holds at all numbers, and half of what holds at large numbers, too, is said.
func TestRandomSizes(t *testing.T) {
	const most = 6
	numbers := []int{0, 1, 2, 3, 4, 5, most, 40, 1001}
	r := rand.New(rand.NewPCG(3, 4))
	decided, decidable := 0, 0
	for range 2500 {
		x, y := randomSize(r, 3), randomSize(r, 3)
		back, err := ParseDim(x.dim.String())
		require.NoError(t, err, x.dim)
		require.True(t, back.Equal(x.dim), "%v parses as %v", x.dim, back)
		instead := x.dim.Subst(map[string]Dim{"a": Sym("b").Mul(N(2)).Add(N(1))})
		lo, hi := x.dim.Within(most)
		alwaysSame, neverSame, alwaysLess, neverLess := true, true, true, true
		for _, a := range numbers {
			for _, b := range numbers {
				at := Binding{"a": a, "b": b}
				u, v := x.at(a, b), y.at(a, b)
				got, err := x.dim.Eval(at)
				require.NoError(t, err)
				require.Equal(t, u, got, "%v at %v", x.dim, at)
				require.True(t, max(a, b) > most || lo <= int64(u) && int64(u) <= hi, "%v is %d at %v, not in [%d, %d]",
					x.dim, u, at, lo, hi)
				turned, err := instead.Eval(at)
				require.NoError(t, err)
				require.Equal(t, x.at(2*b+1, b), turned, "%v for %v at b = %d", instead, x.dim, b)
				alwaysSame, neverSame = alwaysSame && u == v, neverSame && u != v
				alwaysLess, neverLess = alwaysLess && u <= v, neverLess && u > v
			}
		}
		for _, c := range []struct {
			says          Tri
			always, never bool
		}{{Same(x.dim, y.dim), alwaysSame, neverSame}, {LessEqual(x.dim, y.dim), alwaysLess, neverLess}} {
			require.False(t, c.says == Yes && !c.always || c.says == No && !c.never, "%v and %v: %v", x.dim, y.dim, c.says)
			if c.always || c.never {
				decidable++
				if c.says != Unknown {
					decided++
				}
			}
		}
	}
	require.Greater(t, float64(decided)/float64(decidable), 0.51, "%d of %d", decided, decidable)
}

// TestViewsOfStridedTensors: a reshape is a view exactly where strides for the new shape reach the same elements in the same order, and
// slices, transposes and expansions reach what Eval copies.
func TestViewsOfStridedTensors(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	views, copies := 0, 0
	for range 6000 {
		// A tensor of 24 elements or few, transposed and sliced, in the memory of a root.
		from := tensor.Shape{[]int{1, 2, 3, 4}[r.IntN(4)], []int{1, 2, 6}[r.IntN(3)], []int{1, 2, 4}[r.IntN(3)]}
		root := make(tensor.Shape, 3)
		for i, d := range from {
			root[i] = d + r.IntN(2)
		}
		strides, turned := make([]int, 3), r.Perm(3)
		step := 1
		for _, axis := range turned {
			strides[axis] = step
			step *= root[axis]
		}
		if r.IntN(4) == 0 {
			strides[r.IntN(3)] = 0
		}
		in := Layout{Shape: from, Strides: strides, Offset: r.IntN(3)}
		n := from.Elements()
		to := tensor.Shape{}
		for rest := n; rest > 1 || r.IntN(2) == 0; {
			d := 1 + r.IntN(rest)
			if rest%d != 0 {
				continue
			}
			to, rest = append(to, d), rest/d
		}
		g := NewGraph("")
		node, err := g.NewNode(Reshape{Shape: Dims(to...)}, []*Value{g.AddInput("", TensorOf(tensor.F32, Dims(from...)...))})
		require.NoError(t, err)
		places := placesOf(in)
		view, ok := ViewLayout(node, in)
		want := affine(places, to)
		require.Equal(t, want, ok, "%v with strides %v as %v", from, strides, to)
		require.Equal(t, rowMajor(places), in.Contiguous(), "%v with strides %v", from, strides)
		require.Equal(t, spanOf(places), in.Span(), "%v with strides %v", from, strides)
		if !ok {
			copies++
			continue
		}
		views++
		require.Equal(t, places, placesOf(view), "%v with strides %v as %v with %v", from, strides, to, view.Strides)
	}
	require.Greater(t, min(views, copies), 500)
}

// placesOf are the places of a layout's elements in order.
func placesOf(l Layout) []int {
	places := []int{}
	for i := range l.Shape.Elements() {
		at := l.Offset
		for axis := len(l.Shape) - 1; axis >= 0; axis-- {
			at += i % l.Shape[axis] * l.Strides[axis]
			i /= l.Shape[axis]
		}
		places = append(places, at)
	}
	return places
}

// affine reports whether strides for a shape reach these places.
func affine(places []int, to tensor.Shape) bool {
	l := Layout{Shape: to, Strides: make([]int, len(to)), Offset: places[0]}
	for axis, d := range to {
		if d > 1 {
			l.Strides[axis] = places[to[axis+1:].Elements()] - places[0]
		}
	}
	for i, at := range placesOf(l) {
		if at != places[i] {
			return false
		}
	}
	return true
}

func rowMajor(places []int) bool {
	for i, at := range places {
		if at != places[0]+i {
			return false
		}
	}
	return true
}

// spanOf is how many places there are from the first to the last.
func spanOf(places []int) int {
	last := 0
	for _, at := range places {
		last = max(last, at-places[0])
	}
	return last + 1
}
