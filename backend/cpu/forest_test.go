package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/backend/cpu"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

const (
	grownFeatures = 7
	grownTargets  = 3
)

// A grown forest is one in columns, as ONNX has it.
type grown struct {
	trees, ids, features, yes, no, missing []int64
	modes                                  []string
	values                                 []float32
	leafTrees, leafIDs, leafTargets        []int64
	weights                                []float32

	positions map[[2]int64]int       // by tree and number
	votes     map[[2]int64][]castFor // by leaf
}

type castFor struct {
	target int64
	weight float64
}

// grow makes trees of all shapes; the numbers of features are few, so that they meet the splits. Leaves vote for no, one or two targets.
func grow(r *rand.Rand, trees int, modes []string, shuffled bool) *grown {
	g := &grown{positions: map[[2]int64]int{}, votes: map[[2]int64][]castFor{}}
	for t := range int64(trees) {
		count := int64(1)
		for id := int64(0); id < count; id++ {
			mode, yes, no := "LEAF", int64(0), int64(0)
			if count < 40 && r.IntN(8) > 0 {
				mode, yes, no = modes[r.IntN(len(modes))], count, count+1
				count += 2
			}
			split := []float32{-1, 0, 0.5, 1, float32(math.Inf(1)), float32(math.Inf(-1)),
				float32(math.NaN())}[min(r.IntN(40), 6+r.IntN(2))%7]
			g.trees, g.ids, g.modes, g.values = append(g.trees, t), append(g.ids, id), append(g.modes, mode), append(g.values, split)
			g.features, g.missing = append(g.features, r.Int64N(grownFeatures)), append(g.missing, r.Int64N(2))
			g.yes, g.no = append(g.yes, yes), append(g.no, no)
			for range r.IntN(3) {
				if mode == "LEAF" {
					g.leafTrees, g.leafIDs, g.leafTargets = append(g.leafTrees, t), append(g.leafIDs, id),
						append(g.leafTargets, r.Int64N(grownTargets))
					g.weights = append(g.weights, float32(r.NormFloat64()))
				}
			}
		}
	}
	if shuffled { // numbers that are independent of the position
		for _, list := range [][]int64{g.ids, g.yes, g.no, g.leafIDs} {
			for i := range list {
				list[i] = 1000 - 3*list[i]
			}
		}
	}
	for i, tree := range g.trees {
		g.positions[[2]int64{tree, g.ids[i]}] = i
	}
	for i, tree := range g.leafTrees {
		k := [2]int64{tree, g.leafIDs[i]}
		g.votes[k] = append(g.votes[k], castFor{g.leafTargets[i], float64(g.weights[i])})
	}
	return g
}

func (g *grown) attrs() ir.Attrs {
	return ir.Attrs{{Name: "n_targets", Value: int64(grownTargets)}, {Name: "nodes_treeids", Value: g.trees},
		{Name: "nodes_nodeids", Value: g.ids}, {Name: "nodes_featureids", Value: g.features},
		{Name: "nodes_truenodeids", Value: g.yes}, {Name: "nodes_falsenodeids", Value: g.no},
		{Name: "nodes_missing_value_tracks_true", Value: g.missing}, {Name: "nodes_modes", Value: g.modes},
		{Name: "nodes_values", Value: g.values}, {Name: "target_treeids", Value: g.leafTrees}, {Name: "target_nodeids", Value: g.leafIDs},
		{Name: "target_ids", Value: g.leafTargets},
		{Name: "target_weights", Value: g.weights}, {Name: "base_values", Value: []float32{0.5, -2, 1}}}
}

var comparisons = map[string]func(v, s float32) bool{
	"BRANCH_LEQ": func(v, s float32) bool { return v <= s }, "BRANCH_LT": func(v, s float32) bool { return v < s },
	"BRANCH_GTE": func(v, s float32) bool { return v >= s },
	"BRANCH_GT":  func(v, s float32) bool { return v > s }, "BRANCH_EQ": func(v, s float32) bool { return v == s },
	"BRANCH_NEQ": func(v, s float32) bool { return v != s },
}

// predict walks the columns as ONNX describes it.
func (g *grown) predict(x []float32, aggregate string) []float64 {
	votes := make([][]float64, grownTargets)
	trees := 0
	for i := range g.trees {
		if i > 0 && g.trees[i] == g.trees[i-1] {
			continue
		}
		trees++
		k := i
		for g.modes[k] != "LEAF" {
			v, s := x[g.features[k]], g.values[k]
			if comparisons[g.modes[k]](v, s) || v != v && g.missing[k] != 0 {
				k = g.positions[[2]int64{g.trees[k], g.yes[k]}]
			} else {
				k = g.positions[[2]int64{g.trees[k], g.no[k]}]
			}
		}
		for _, v := range g.votes[[2]int64{g.trees[k], g.ids[k]}] {
			votes[v.target] = append(votes[v.target], v.weight)
		}
	}
	out := make([]float64, grownTargets)
	for i, list := range votes {
		for j, w := range list {
			switch {
			case j == 0, aggregate == "MIN" && w < out[i], aggregate == "MAX" && w > out[i]:
				out[i] = w
			case aggregate == "SUM", aggregate == "AVERAGE":
				out[i] += w
			}
		}
		if aggregate == "AVERAGE" {
			out[i] /= float64(trees)
		}
		if len(list) > 0 {
			out[i] += []float64{0.5, -2, 1}[i]
		}
	}
	return out
}

// TestForest runs trees of one comparison and of all, with and without NaN, with few rows and with several tiles, and by one thread and
// two: as ONNX describes them, and as Eval computes them, to the bit.
func TestForest(t *testing.T) {
	all := []string{"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"}
	r := rand.New(rand.NewPCG(1, 2))
	for i, modes := range [][]string{all[:1], all[1:2], all[2:3], all[3:4], all[:4], all} {
		for k, aggregate := range []string{"SUM", "AVERAGE", "MIN", "MAX"} {
			trees := []int{1, 6, 70, 133}[(i+k)%4]
			forest := grow(r, trees, modes, i%2 == 1)
			op := ops.TreeEnsembleRegressor{Attrs: append(forest.attrs(),
				ir.Attr{Name: "aggregate_function", Value: aggregate}), Version: 3}
			g := ir.NewGraph("forest")
			x := g.AddInput("x", ir.TensorOf(tensor.F32, ir.Sym("n"), ir.N(grownFeatures)))
			y, err := g.Append(op, []*ir.Value{x}, "trees")
			require.NoError(t, err)
			g.Outputs, g.OutputNames = y, []string{"y"}
			for _, threads := range []int{1, 2} {
				d, err := cpu.Open(backend.Options{Threads: threads})
				require.NoError(t, err)
				require.Equal(t, target.OnKernel, d.Target().Where(g.Nodes[0]))
				for _, rows := range []int{0, 1, 3, 31, 33, 70} {
					in := tensor.New(tensor.F32, rows, grownFeatures)
					features := tensor.Of[float32](in)
					for j := range features {
						if features[j] = []float32{-1.5, -1, float32(math.Copysign(0, -1)), 0, 0.25, 0.5, 1,
							2}[r.IntN(8)]; r.IntN(50) == 0 && rows%2 == 1 {
							features[j] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[r.IntN(3)]
						}
					}
					name := fmt.Sprintf("%v %s, %d trees, %d rows, %d threads", modes, aggregate, trees, rows, threads)
					got := run(t, d, g, ir.Binding{"n": rows}, []*tensor.Tensor{in})
					want, err := ir.EvalOp(nil, g.Nodes[0].Op, []*tensor.Tensor{in})
					require.NoError(t, err)
					require.Equal(t, string(want[0].Bytes()), string(got[0].Bytes()), name)
					for row := range rows {
						for j, v := range forest.predict(features[row*grownFeatures:][:grownFeatures], aggregate) {
							require.InDelta(t, v, got[0].Float64(row*grownTargets+j), 1e-5, name)
						}
					}
				}
				require.NoError(t, d.Close())
			}
		}
	}
}
