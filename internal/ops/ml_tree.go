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
	return f.model(rowModel{dtype: tensor.Invalid}, func([]float64, []Tally) int { return 0 })
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
	return r.branches("target", targets, aggregate).model(rowModel{dtype: tensor.F32}, func(s []float64, t []Tally) int {
		for i, b := range base {
			if t[i].voted { // a target without votes is 0, as in onnxruntime
				s[i] += b
			}
		}
		post(s)
		return 0
	})
}

// read makes a score for each label, to which base_values are added. The label is the one of the largest score among those that have
// votes or a base value; two labels follow other rules.
func (treeEnsembleClassifier) read(r *reader) *rowModel {
	labels := r.classLabels("classlabels_int64s")
	n := labels.Len()
	f, base := r.branches("class", n, total), r.doubles("base_values")
	if len(base) != 0 && len(base) != n && (n != 2 || len(base) != 1) {
		r.failf("%d base_values for %d labels", len(base), n)
	}
	if n == 2 {
		return f.model(rowModel{labels: labels}, r.twoLabels(f.votes, base))
	}
	post := r.transform(n)
	return f.model(rowModel{labels: labels}, func(s []float64, t []Tally) int {
		best := -1
		for i := range s {
			if len(base) > 0 {
				s[i] += base[i]
			} else if !t[i].voted {
				continue
			}
			if best < 0 || s[i] > s[best] {
				best = i
			}
		}
		post(s)
		return max(best, 0)
	})
}

// twoLabels returns onnxruntime's rules for two labels, which ONNX leaves open. Exporters write three forms of them: all leaves vote for
// label 0, with positive weights (forests of scikit-learn) or any (boosted trees, perhaps with one base value), or each leaf votes for
// both labels (CatBoost).
//
// A label without votes has the score 0. One score s is the odds of label 1: the scores are (1−s, s) if no weight is negative, and
// (−s, s) or their logistic otherwise. The sign of the score of label 1 decides, or of s − 1/2 where the scores are (1−s, s).
func (r *reader) twoLabels(votes []vote, base []float64) func(s []float64, t []Tally) int {
	positive, single := true, true // no weight is negative; all votes are for one label
	for _, v := range votes {
		positive = positive && v.weight >= 0
		single = single && v.target == votes[0].target
	}
	name, post := r.text("post_transform", "NONE"), r.transform(2)
	return func(s []float64, t []Tally) int {
		first, second := t[0].voted, t[1].voted
		switch {
		case len(base) == 2 && second: // the base of label 0 counts for nothing, nor do the votes for label 1
			s[1] = base[1] + s[0]
			s[0] = -s[1]
		case len(base) > 0:
			s[0] += base[0]
		}
		odds := s[0]
		if second {
			odds = s[1]
		} else if !first {
			odds = 0
		}
		label := signOf(odds)
		if single && positive {
			label = signOf(odds - 0.5)
		}
		one := s[0]
		if second || len(base) == 2 {
			if !first {
				s[0] = 0
			}
			post(s)
			return label
		}
		switch {
		case name == "PROBIT": // of the one score, and nothing for the other label
			s[0], s[1] = probit(one), 0
		case !single && len(base) == 1:
			s[0], s[1] = one, 0
		case name == "LOGISTIC":
			s[0], s[1] = sigmoid(-one), sigmoid(one)
		case single && positive:
			s[0], s[1] = 1-one, one
		default:
			s[0], s[1] = -one, one
		}
		return label
	}
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
