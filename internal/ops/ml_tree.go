package ops

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/tensor"
)

// The comparisons of a node, as TreeEnsemble numbers them.
const (
	atMost = iota
	below
	atLeast
	above
	equalTo
	unequal
	member
	leaf // no comparison
)

// modeNames are those of the older operators.
var modeNames = map[string]uint8{"BRANCH_LEQ": atMost, "BRANCH_LT": below, "BRANCH_GTE": atLeast, "BRANCH_GT": above,
	"BRANCH_EQ": equalTo, "BRANCH_NEQ": unequal, "LEAF": leaf}

// The ways in which trees vote together, as TreeEnsemble numbers them.
const (
	average = iota
	total
	least
	most
)

var aggregateNames = map[string]int{"AVERAGE": average, "SUM": total, "MIN": least, "MAX": most}

// read reads nodes and leaves in tables that refer to each other.
func (treeEnsemble) read(r *reader) *rowModel {
	targets := r.int("n_targets", 1)
	if post := r.int("post_transform", 0); post != 0 {
		r.failf("post_transform %d", post)
	}
	aggregate := r.int("aggregate_function", total)
	r.ignore("nodes_hitrates")
	table := r.tensor
	list := r.int64s
	splits, weights, modes := table("nodes_splits"), table("leaf_weights"), table("nodes_modes")
	n, leaves := splits.Len(), weights.Len()
	columns := map[string][]int64{}
	for _, name := range []string{"nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs"} {
		if columns[name] = list(name); len(columns[name]) != n {
			r.failf("%s has %d entries for %d nodes", name, len(columns[name]), n)
		}
	}
	of, missing := list("leaf_targetids"), list("nodes_missing_value_tracks_true")
	if modes.Len() != n || len(of) != leaves || len(missing) != 0 && len(missing) != n {
		r.failf("%d modes and %d entries of nodes_missing_value_tracks_true for %d nodes, %d targets for %d leaves", modes.Len(),
			len(missing), n, len(of), leaves)
	}
	if targets < 1 || targets > MaxSize || aggregate < average || aggregate > most {
		r.failf("%d targets, aggregate_function %d", targets, aggregate)
	}
	at := func(to, isLeaf int64) int { // leaves are after the nodes
		switch {
		case isLeaf == 0 && to >= 0 && to < int64(n):
			return int(to)
		case isLeaf != 0 && to >= 0 && to < int64(leaves):
			return n + int(to)
		}
		return -1
	}
	yes, no, yesLeaf, noLeaf := columns["nodes_truenodeids"], columns["nodes_falsenodeids"], columns["nodes_trueleafs"],
		columns["nodes_falseleafs"]
	t := &treeTable{modes: make([]uint8, n+leaves), features: columns["nodes_featureids"], splits: splits.Float64s(), missing: missing,
		roots: r.ints("tree_roots"),
		next:  func(i int) (int, int) { return at(yes[i], yesLeaf[i]), at(no[i], noLeaf[i]) },
		votes: make([]vote, leaves), starts: make([]int32, n+leaves+1)}
	for i := range n {
		mode := modes.Int64(i)
		if mode < atMost || mode > member {
			r.failf("node %d is of mode %d", i, mode)
		}
		t.modes[i] = uint8(mode)
	}
	for i := range leaves {
		t.modes[n+i], t.votes[i], t.starts[n+i+1] = leaf, vote{int(of[i]), weights.Float64(i)}, int32(i+1)
	}
	members, ok := attr[*tensor.Tensor](r, "membership_values")
	if !ok {
		members = tensor.New(splits.DType(), 0)
	}
	if err := t.readSets(members.Aligned()); err != nil {
		r.failf("%w", err)
	}
	f, err := t.flatten(targets, aggregate)
	if err != nil {
		r.failf("%w", err)
	}
	return f.model(rowModel{dtype: tensor.Invalid}, make([]float64, targets), func([]float64) int { return 0 })
}

// branches reads the tables of the older operators, where trees and nodes have separate numbers, and the leaves' votes,
// whose attributes begin with prefix: "target" or "class".
func (r *reader) branches(prefix string, targets, aggregate int) *Forest {
	r.ignore("nodes_hitrates", "nodes_hitrates_as_tensor")
	list := r.int64s
	trees, ids := list("nodes_treeids"), list("nodes_nodeids")
	features, yes, no, missing := list("nodes_featureids"), list("nodes_truenodeids"), list("nodes_falsenodeids"),
		list("nodes_missing_value_tracks_true")
	modes := r.texts("nodes_modes")
	splits := r.doubles("nodes_values")
	n := len(trees)
	for _, list := range []struct {
		name string
		n    int
	}{{"nodes_nodeids", len(ids)}, {"nodes_featureids", len(features)}, {"nodes_truenodeids", len(yes)}, {"nodes_falsenodeids", len(no)},
		{"nodes_modes", len(modes)}, {"nodes_values", len(splits)}, {"nodes_missing_value_tracks_true", max(len(missing), n)}} {
		if list.n != n || n == 0 {
			r.failf("%s has %d entries for %d nodes", list.name, list.n, n)
		}
	}
	find, roots, err := numbered(trees, ids)
	if err != nil {
		r.failf("%w", err)
	}
	t := &treeTable{modes: make([]uint8, n), features: features, splits: splits, missing: missing, roots: roots,
		next: func(i int) (int, int) { return find(trees[i], yes[i]), find(trees[i], no[i]) }}
	for i, name := range modes {
		mode, ok := modeNames[name]
		if !ok {
			r.failf("mode %q of node %d", name, i)
		}
		t.modes[i] = mode
	}
	r.castVotes(t, prefix, find)
	f, err := t.flatten(targets, aggregate)
	if err != nil {
		r.failf("%w", err)
	}
	return f
}

// numbered finds nodes by the numbers that trees and nodes have. Most models number the nodes of each tree from 0 in the order of
// the table: then one entry for each tree is enough.
func numbered(trees, ids []int64) (find func(tree, id int64) int, roots []int, err error) {
	type span struct{ first, end int }
	spans, inOrder := map[int64]span{}, true
	for i, tree := range trees {
		if i == 0 || tree != trees[i-1] {
			roots = append(roots, i)
			_, again := spans[tree]
			inOrder = inOrder && !again
		}
		if first := roots[len(roots)-1]; inOrder {
			inOrder = ids[i] == int64(i-first)
		}
		if i+1 == len(trees) || trees[i+1] != tree {
			spans[tree] = span{roots[len(roots)-1], i + 1}
		}
	}
	if inOrder {
		last, s := trees[0], spans[trees[0]] // nodes are asked for tree by tree
		return func(tree, id int64) int {
			if tree != last {
				last, s = tree, spans[tree]
			}
			if id < 0 || id >= int64(s.end-s.first) {
				return -1
			}
			return s.first + int(id)
		}, roots, nil
	}
	at := make(map[[2]int64]int, len(trees))
	for i, tree := range trees {
		key := [2]int64{tree, ids[i]}
		if _, ok := at[key]; ok {
			return nil, nil, fmt.Errorf("tree %d has two nodes %d", tree, ids[i])
		}
		at[key] = i
	}
	return func(tree, id int64) int {
		if i, ok := at[[2]int64{tree, id}]; ok {
			return i
		}
		return -1
	}, roots, nil
}

// castVotes returns the leaves their votes, those of one leaf one after the other.
func (r *reader) castVotes(t *treeTable, prefix string, find func(tree, id int64) int) {
	list := func(name string) []int64 { return r.int64s(prefix + name) }
	trees, ids, of, weights := list("_treeids"), list("_nodeids"), list("_ids"), r.doubles(prefix+"_weights")
	if len(ids) != len(trees) || len(of) != len(trees) || len(weights) != len(trees) {
		r.failf("%d trees, %d nodes, %d targets and %d weights of leaves", len(trees), len(ids), len(of), len(weights))
	}
	t.starts, t.votes = make([]int32, len(t.modes)+1), make([]vote, len(trees))
	leaves := make([]int32, len(trees))
	for i := range trees {
		k := find(trees[i], ids[i])
		if k < 0 || t.modes[k] != leaf {
			r.failf("a weight for node %d of tree %d, which is not a leaf", ids[i], trees[i])
		}
		leaves[i] = int32(k)
		t.starts[k]++
	}
	end := int32(0)
	for k, n := range t.starts { // first the ends: filling from the end makes starts of them
		end += n
		t.starts[k] = end
	}
	for i := len(leaves) - 1; i >= 0; i-- {
		k := leaves[i]
		t.starts[k]--
		t.votes[t.starts[k]] = vote{int(of[i]), weights[i]}
	}
}

// doubles reads an attribute of floats, or the tensor that newer versions may have instead.
func (r *reader) doubles(name string) []float64 {
	t, ok := (*tensor.Tensor)(nil), false
	if r.version >= 3 {
		t, ok = attr[*tensor.Tensor](r, name+"_as_tensor")
	}
	if !ok {
		return r.numbers(name)
	}
	if r.has(name) || !t.DType().IsFloat() {
		r.failf("%s is given twice, or as %v", name, t)
	}
	return t.Float64s()
}

func (treeEnsembleRegressor) read(r *reader) *rowModel {
	targets := r.int("n_targets", 1)
	aggregate, ok := aggregateNames[r.text("aggregate_function", "SUM")]
	base := r.doubles("base_values")
	if len(base) == 0 && targets > 0 && targets <= MaxSize {
		base = make([]float64, targets)
	}
	if !ok || targets < 1 || len(base) != targets {
		r.failf("aggregate_function %q of %d targets with %d base_values", r.text("aggregate_function", ""), targets, len(base))
	}
	post := r.transform(targets)
	return r.branches("target", targets, aggregate).model(rowModel{dtype: tensor.F32}, base, func(s []float64) int {
		post(s)
		return 0
	})
}

// read makes a score for each label. Where all leaves vote for one of two labels, the score says which of
// the two it is: above one half if no weight is negative, and above 0 otherwise.
func (treeEnsembleClassifier) read(r *reader) *rowModel {
	labels := r.classLabels("classlabels_int64s")
	n := labels.Len()
	f, base := r.branches("class", n, total), r.doubles("base_values")
	positive, single := true, n == 2
	for _, v := range f.votes {
		positive = positive && v.weight >= 0
		single = single && v.target == f.votes[0].target
	}
	if single {
		if len(base) > 1 {
			r.failf("%d base_values for one score of two labels", len(base))
		}
		logistic := r.text("post_transform", "NONE") == "LOGISTIC"
		r.transform(1)
		return f.model(rowModel{labels: labels}, make([]float64, 2), func(scores []float64) int {
			s := scores[0] + scores[1] // the other label has no votes
			for _, v := range base {
				s += v
			}
			label := signOf(s)
			if positive {
				label = signOf(s - 0.5)
			}
			switch {
			case logistic:
				scores[0], scores[1] = sigmoid(-s), sigmoid(s)
			case positive:
				scores[0], scores[1] = 1-s, s
			default:
				scores[0], scores[1] = -s, s
			}
			return label
		})
	}
	if len(base) == 0 {
		base = make([]float64, n)
	}
	if len(base) != n {
		r.failf("%d base_values for %d labels", len(base), n)
	}
	post := r.transform(n)
	return f.model(rowModel{labels: labels}, base, func(s []float64) int {
		best := argMax(s)
		post(s)
		return best
	})
}

// readSets reads the members of the nodes that ask for membership, in their order, each list ended by a NaN.
func (t *treeTable) readSets(values *tensor.Tensor) error {
	at := 0
	t.sets = map[int]map[float64]bool{}
	for i, mode := range t.modes {
		if mode != member {
			continue
		}
		set := map[float64]bool{}
		for ; ; at++ {
			if at >= values.Len() {
				return fmt.Errorf("membership_values ends before the set of node %d does", i)
			}
			v := values.Float64(at)
			if math.IsNaN(v) {
				at++
				break
			}
			set[v] = true
		}
		t.sets[i] = set
	}
	return nil
}
