package ops

import (
	"flag"
	"fmt"
	"maps"
	"math"
	reflection "reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rlxc/rlxc/internal/recorded"
	"github.com/rlxc/rlxc/tensor"
)

var update = flag.Bool("update", false, "write testdata/ml.txt anew")

var nan = math.NaN()

// otherParameters are values near that of a parameter.
func otherParameters(v any) (out []any) {
	switch x := v.(type) {
	case int64:
		return []any{x - 1, x + 1}
	case string:
		return []any{"X", ""}
	case float32:
		return []any{x - 1, x + 1}
	case *tensor.Tensor:
		for i := range x.Len() {
			for _, by := range []float64{-1, 1, 6} {
				y := x.Clone()
				y.SetFloat64(i, y.Float64(i)+by)
				out = append(out, y)
			}
		}
		return append(out, tensor.New(x.DType(), x.Len()+1))
	}
	list := reflection.ValueOf(v)
	out = append(out, list.Slice(0, list.Len()-1).Interface(), reflection.AppendSlice(list, list.Slice(0, 1)).Interface())
	for i := range list.Len() {
		for _, to := range otherParameters(list.Index(i).Interface()) {
			changed := reflection.AppendSlice(reflection.MakeSlice(list.Type(), 0, list.Len()), list)
			changed.Index(i).Set(reflection.ValueOf(to))
			out = append(out, changed.Interface())
		}
	}
	return out
}

// TestChangedRowModels changes one parameter at a time of classical models, and compares what is made of a few rows, or why the model is
// refused, with what testdata/ml.txt records. After a change: go test ./internal/ops -run TestChangedRowModels -update
func TestChangedRowModels(t *testing.T) {
	deep := oneTree.with(given{"nodes_treeids": []int64{0, 0, 0, 0, 0, 2, 2, 2}, "nodes_nodeids": []int64{0, 1, 2, 3, 4, 0, 4, 1},
		"nodes_featureids": []int64{1, 0, 0, 0, 0, 0, 0, 0}, "nodes_truenodeids": []int64{1, 0, 3, 0, 0, 1, 0, 0},
		"nodes_falsenodeids": []int64{2, 0, 4, 0, 0, 4, 0, 0}, "nodes_missing_value_tracks_true": []int64{0, 0, 1, 0, 0, 1, 0, 0},
		"nodes_modes":  []string{"BRANCH_LEQ", "LEAF", "BRANCH_GT", "LEAF", "LEAF", "BRANCH_EQ", "LEAF", "LEAF"},
		"nodes_values": []float32{0.5, 0, 1.5, 0, 0, 2, 0, 0}, "target_treeids": []int64{0, 0, 0, 2, 2},
		"target_nodeids": []int64{1, 3, 4, 4, 1}, "target_ids": []int64{0, 1, 0, 1, 0}, "target_weights": []float32{1, 2, 4, 8, 16},
		"n_targets": int64(2), "base_values": []float32{0.25, 0.5}, "aggregate_function": "SUM", "post_transform": "NONE"})
	numbers := func(x ...float32) *tensor.Tensor { return tensor.FromSlice(x) }
	table := given{"n_targets": int64(2), "post_transform": int64(0), "aggregate_function": int64(1), "nodes_splits": numbers(1, 2),
		"leaf_weights": numbers(1, 2, 4), "nodes_modes": tensor.FromSlice([]uint8{0, 6}), "nodes_featureids": []int64{0, 1},
		"nodes_truenodeids": []int64{1, 1}, "nodes_falsenodeids": []int64{0, 2}, "nodes_trueleafs": []int64{0, 1},
		"nodes_falseleafs": []int64{1, 1}, "leaf_targetids": []int64{0, 1, 1}, "nodes_missing_value_tracks_true": []int64{1, 0},
		"membership_values": numbers(2, 3, float32(nan)), "tree_roots": []int64{0}}
	var out strings.Builder
	for _, c := range []struct {
		name   string
		read   func(*reader) *rowModel
		params given
	}{
		{"machines", svmClassifier{}.read, twoMachines.with(given{"prob_a": []float32{-2}, "prob_b": []float32{0.25},
			"post_transform": "NONE", "kernel_type": "POLY", "kernel_params": []float32{0.5, 1, 2}})},
		{"three machines", svmClassifier{}.read, threeMachines},
		{"machine", svmRegressor{}.read, oneMachine.with(given{"one_class": int64(0), "post_transform": "NONE", "kernel_type": "RBF",
			"kernel_params": []float32{0.5, 0, 0}})},
		{"labels", linearClassifier{}.read, linearLabels.with(given{"post_transform": "LOGISTIC", "multi_class": int64(0)})},
		{"sums", linearRegressor{}.read, linearSums.with(given{"post_transform": "SOFTMAX"})},
		{"trees", treeEnsembleRegressor{}.read, deep},
		{"labels of a tree", treeEnsembleClassifier{}.read, oneTree.with(treeLabels).with(given{"post_transform": "SOFTMAX"})},
		{"table", treeEnsemble{}.read, table},
	} {
		asItIs := ""
		try := func(what string, params given) {
			m, err := params.model(c.read)
			if err != nil {
				fmt.Fprintf(&out, "%s %s: %v\n", c.name, what, err)
				return
			}
			text := fmt.Sprintf("%d features:", m.features)
			for _, x := range [][]float64{{0, 0, 0, 0}, {1, 2, 3, 4}, {2, 0.5, -1, 2}, {nan, 3, 0, 1}} {
				if len(x) >= m.features {
					scores, label := m.score(x[:max(m.features, min(2, len(x)))])
					text += fmt.Sprintf(" %.4g %d", scores, label)
				}
			}
			if asItIs == text {
				text = "the same"
			} else if asItIs == "" {
				asItIs = text
			}
			fmt.Fprintf(&out, "%s %s: %s\n", c.name, what, text)
		}
		try("as it is", c.params)
		for _, name := range slices.Sorted(maps.Keys(c.params)) {
			v := c.params[name]
			if v == nil {
				continue
			}
			try("without "+name, c.params.with(given{name: nil}))
			for _, to := range otherParameters(v) {
				text := fmt.Sprint(to)
				if x, ok := to.(*tensor.Tensor); ok {
					text = fmt.Sprint(x.Float64s())
				}
				try(name+"="+text, c.params.with(given{name: to}))
			}
		}
	}
	recorded.Check(t, "testdata/ml.txt", *update, out.String())
}
