package rewrite

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TestUnpad runs the cases of testdata/unpad: a graph, and what the pass makes of it, or why it is refused. A graph that is
// refused stays what it was. One that is not is run on batches, of which each row equals the row run alone as it was.
func TestUnpad(t *testing.T) {
	const file = "testdata/unpad/cases.txt"
	a, err := txtar.ParseFile(file)
	require.NoError(t, err)
	for i := 0; i < len(a.Files); i += 2 {
		t.Run(a.Files[i].Name, func(t *testing.T) {
			before, after := parse(t, string(a.Files[i].Data)), parse(t, string(a.Files[i].Data))
			n, miss := unpad(after, nil, false)
			want := &a.Files[i+1]
			if want.Name == "refused" {
				require.NotEmpty(t, miss, "it was not refused")
				require.Contains(t, miss, strings.TrimSpace(string(want.Data)))
				require.Equal(t, before.String(), after.String())
				return
			}
			require.Empty(t, miss)
			require.Positive(t, n)
			require.NoError(t, ir.Verify(after))
			for seed := range uint64(8) {
				requireEqualRows(t, before, after, rand.New(rand.NewPCG(seed, 5)))
			}
			after.Renumber()
			if *update {
				want.Data = []byte(after.String())
			}
			require.Equal(t, string(want.Data), after.String())
		})
	}
	if *update {
		require.NoError(t, os.WriteFile(file, txtar.Format(a), 0o666))
	}
}

// requireEqualRows runs a batch with a drawn mask, and its rows alone as they were.
func requireEqualRows(t *testing.T, before, after *ir.Graph, r *rand.Rand) {
	texts, length := 1+r.IntN(4), 1+r.IntN(6)
	ids, mask := tensor.New(tensor.I64, texts, length), tensor.New(tensor.I64, texts, length)
	for i := range mask.Len() {
		ids.SetInt64(i, r.Int64N(9))
		mask.SetInt64(i, r.Int64N(2))
	}
	for _, n := range after.Nodes {
		if op, ok := n.Op.(ir.Pack); ok && op.First {
			requireFirst(t, after, ids, mask)
		}
	}
	got, err := ir.Interpret(after, []*tensor.Tensor{ids, mask})
	require.NoError(t, err, after.String())
	for b := range texts {
		row := func(x *tensor.Tensor) *tensor.Tensor {
			y := tensor.New(x.DType(), append([]int{1}, x.Shape()[1:]...)...)
			size := len(x.Bytes()) / texts
			copy(y.Bytes(), x.Bytes()[b*size:][:size])
			return y
		}
		kept := tensor.Of[int64](row(mask))
		some := false
		for _, x := range kept {
			some = some || x == 1
		}
		want, err := ir.Interpret(before, []*tensor.Tensor{row(ids), row(mask)})
		require.NoError(t, err)
		for i, w := range want {
			g := row(got[i])
			if before.Outputs[i].Type.Shape.Equal(after.Outputs[i].Type.Shape) && len(w.Shape()) == 3 { // of tokens
				for s, k := range kept {
					for c := s * w.Shape()[2]; c < (s+1)*w.Shape()[2]; c++ {
						x := w.Float64(c)
						if k == 0 {
							x = 0
						}
						require.InDelta(t, x, g.Float64(c), 1e-5)
					}
				}
			} else if some {
				require.InDeltaSlice(t, w.Float64s(), g.Float64s(), 1e-5)
			}
		}
	}
}

// requireFirst holds masks that hide the first token, and not the whole text, to an error that names the row, and makes them keep it.
func requireFirst(t *testing.T, g *ir.Graph, ids, mask *tensor.Tensor) {
	t.Helper()
	length := mask.Shape()[1]
	for b := range mask.Shape()[0] {
		row := tensor.Of[int64](mask)[b*length:][:length]
		if !slices.Contains(row, 1) || row[0] == 1 {
			continue
		}
		_, err := ir.Interpret(g, []*tensor.Tensor{ids, mask})
		require.ErrorContains(t, err, fmt.Sprintf("the attention mask of sequence %d hides its first token", b))
		row[0] = 1
	}
}

// TestUnpadWithoutKernels: where Eval runs attention of padded texts, it runs that of their tokens as well.
func TestUnpadWithoutKernels(t *testing.T) {
	a, err := txtar.ParseFile("testdata/unpad/cases.txt")
	require.NoError(t, err)
	n, miss := unpad(parse(t, string(a.Files[0].Data)), &target.Target{Name: "none"}, false)
	require.Empty(t, miss)
	require.Positive(t, n)
}
