package ops

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// TreeEnsemble is ai.onnx.ml's.
type TreeEnsemble struct{ Classical }

// Prepare implements ir.Preparer.
func (o TreeEnsemble) Prepare() (_ ir.Op, err error) {
	o.Classical, err = o.prepared(readTreeEnsemble)
	return o, err
}

// Eval implements ir.Op.
func (o TreeEnsemble) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return o.model.eval(env, o, in)
}

// TreeEnsembleClassifier is ai.onnx.ml's.
type TreeEnsembleClassifier struct{ Classical }

// Prepare implements ir.Preparer.
func (o TreeEnsembleClassifier) Prepare() (_ ir.Op, err error) {
	o.Classical, err = o.prepared(readTreeEnsembleClassifier)
	return o, err
}

// Eval implements ir.Op.
func (o TreeEnsembleClassifier) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return o.model.eval(env, o, in)
}

// TreeEnsembleRegressor is ai.onnx.ml's.
type TreeEnsembleRegressor struct{ Classical }

// Prepare implements ir.Preparer.
func (o TreeEnsembleRegressor) Prepare() (_ ir.Op, err error) {
	o.Classical, err = o.prepared(readTreeEnsembleRegressor)
	return o, err
}

// Eval implements ir.Op.
func (o TreeEnsembleRegressor) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return o.model.eval(env, o, in)
}

// A forest is decision trees in one table of nodes.
type forest struct {
	nodes []treeNode
	votes []vote
	roots []int
}

// A treeNode asks for one feature, or is a leaf that casts votes.
type treeNode struct {
	leaf       bool
	mode       int
	feature    int
	split      float64
	members    map[float64]bool // of mode member
	yes, no    int              // nodes
	missing    bool             // whether NaN goes to yes
	first, end int              // votes of a leaf
}

type vote struct {
	target int
	weight float64
}

// The comparisons of a node, as TreeEnsemble numbers them.
const (
	atMost = iota
	below
	atLeast
	above
	equalTo
	unequal
	member
)

// modeNames are those of the older operators.
var modeNames = map[string]int{"BRANCH_LEQ": atMost, "BRANCH_LT": below, "BRANCH_GTE": atLeast, "BRANCH_GT": above, "BRANCH_EQ": equalTo, "BRANCH_NEQ": unequal}

// The ways in which trees vote together, as TreeEnsemble numbers them.
const (
	average = iota
	total
	least
	most
)

var aggregateNames = map[string]int{"AVERAGE": average, "SUM": total, "MIN": least, "MAX": most}

// check looks at every reference once, so that walking a tree cannot leave the tables or go round for ever.
func (f *forest) check(targets int) error {
	for _, v := range f.votes {
		if v.target < 0 || v.target >= targets {
			return fmt.Errorf("a leaf is of target %d of %d", v.target, targets)
		}
	}
	seen := make([]bool, len(f.nodes))
	var visit []int
	for _, r := range f.roots {
		if r < 0 || r >= len(f.nodes) {
			return fmt.Errorf("a tree begins at node %d of %d", r, len(f.nodes))
		}
		visit = append(visit, r)
	}
	for len(visit) > 0 {
		i := visit[len(visit)-1]
		visit = visit[:len(visit)-1]
		n := f.nodes[i]
		if n.leaf {
			continue
		}
		if seen[i] {
			return fmt.Errorf("node %d has two ways to it", i)
		}
		seen[i] = true
		if n.feature < 0 || n.mode < atMost || n.mode > member {
			return fmt.Errorf("node %d compares feature %d by mode %d", i, n.feature, n.mode)
		}
		for _, next := range []int{n.yes, n.no} {
			if next < 0 || next >= len(f.nodes) {
				return fmt.Errorf("node %d leads to node %d of %d", i, next, len(f.nodes))
			}
			visit = append(visit, next)
		}
	}
	return nil
}

// features is the number that rows must have.
func (f *forest) features() int {
	n := 0
	for _, x := range f.nodes {
		if !x.leaf {
			n = max(n, x.feature+1)
		}
	}
	return n
}

// leaf walks a tree from node i.
func (f *forest) leaf(i int, x []float64) treeNode {
	for {
		n := f.nodes[i]
		if n.leaf {
			return n
		}
		v := x[n.feature]
		yes := [...]bool{v <= n.split, v < n.split, v >= n.split, v > n.split, v == n.split, v != n.split, n.members[v]}[n.mode]
		if yes || n.missing && math.IsNaN(v) {
			i = n.yes
		} else {
			i = n.no
		}
	}
}

// score puts the votes of all trees together, for each target, above its base; what none votes for is 0, as in onnxruntime.
func (f *forest) score(x []float64, aggregate int, base []float64) []float64 {
	scores, voted := make([]float64, len(base)), make([]bool, len(base))
	for _, root := range f.roots {
		leaf := f.leaf(root, x)
		for _, v := range f.votes[leaf.first:leaf.end] {
			s := &scores[v.target]
			switch first := !voted[v.target]; {
			case first, aggregate == least && v.weight < *s, aggregate == most && v.weight > *s:
				*s = v.weight
			case aggregate == average, aggregate == total:
				*s += v.weight
			}
			voted[v.target] = true
		}
	}
	for i := range scores {
		if aggregate == average {
			scores[i] /= float64(len(f.roots))
		}
		if voted[i] {
			scores[i] += base[i]
		}
	}
	return scores
}

// readTreeEnsemble: nodes and leaves in tables that refer to each other.
func readTreeEnsemble(r *reader) *rowModel {
	targets := r.int("n_targets", 1)
	if post := r.int("post_transform", 0); post != 0 {
		r.failf("post_transform %d", post)
	}
	aggregate := r.int("aggregate_function", total)
	r.ignore("nodes_hitrates")
	table := r.tensor
	list := r.ints
	splits, weights, modes := table("nodes_splits"), table("leaf_weights"), table("nodes_modes")
	n, leaves := splits.Len(), weights.Len()
	columns := map[string][]int{}
	for _, name := range []string{"nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs"} {
		if columns[name] = list(name); len(columns[name]) != n {
			r.failf("%s has %d entries for %d nodes", name, len(columns[name]), n)
		}
	}
	of, missing := list("leaf_targetids"), list("nodes_missing_value_tracks_true")
	if modes.Len() != n || len(of) != leaves || len(missing) != 0 && len(missing) != n {
		r.failf("%d modes and %d entries of nodes_missing_value_tracks_true for %d nodes, %d targets for %d leaves", modes.Len(), len(missing), n, len(of), leaves)
	}
	if targets < 1 || targets > MaxSize || aggregate < average || aggregate > most {
		r.failf("%d targets, aggregate_function %d", targets, aggregate)
	}
	f := &forest{roots: list("tree_roots")}
	next := func(to, isLeaf int) int { // leaves stand after the nodes
		switch {
		case isLeaf == 0 && to < n:
			return to
		case isLeaf != 0 && to >= 0 && to < leaves:
			return n + to
		}
		return -1
	}
	for i := range n {
		f.nodes = append(f.nodes, treeNode{mode: int(modes.Int64(i)), feature: columns["nodes_featureids"][i], split: splits.Float64(i),
			yes: next(columns["nodes_truenodeids"][i], columns["nodes_trueleafs"][i]), no: next(columns["nodes_falsenodeids"][i], columns["nodes_falseleafs"][i]),
			missing: len(missing) > 0 && missing[i] != 0})
	}
	for i := range leaves {
		f.nodes = append(f.nodes, treeNode{leaf: true, first: i, end: i + 1})
		f.votes = append(f.votes, vote{of[i], weights.Float64(i)})
	}
	members, ok := attr[*tensor.Tensor](r, "membership_values")
	if !ok {
		members = tensor.New(splits.DType(), 0)
	}
	if err := f.readSets(members.Aligned()); err != nil {
		r.failf("%w", err)
	}
	if err := f.check(targets); err != nil {
		r.failf("%w", err)
	}
	base := make([]float64, targets)
	return regressor(tensor.Invalid, targets, f.features(), func(x []float64) []float64 { return f.score(x, aggregate, base) })
}

// branches reads the tables of the older operators, where trees and nodes have numbers of their own, and the leaves' votes,
// whose attributes begin with prefix: "target" or "class".
func (r *reader) branches(prefix string, targets int) *forest {
	r.ignore("nodes_hitrates", "nodes_hitrates_as_tensor")
	list := r.ints
	trees, ids := list("nodes_treeids"), list("nodes_nodeids")
	features, yes, no, missing := list("nodes_featureids"), list("nodes_truenodeids"), list("nodes_falsenodeids"), list("nodes_missing_value_tracks_true")
	modes := r.texts("nodes_modes")
	splits := r.doubles("nodes_values")
	n := len(trees)
	for name, k := range map[string]int{"nodes_nodeids": len(ids), "nodes_featureids": len(features), "nodes_truenodeids": len(yes), "nodes_falsenodeids": len(no),
		"nodes_modes": len(modes), "nodes_values": len(splits), "nodes_missing_value_tracks_true": max(len(missing), n)} {
		if k != n || n == 0 {
			r.failf("%s has %d entries for %d nodes", name, k, n)
		}
	}
	f := &forest{}
	at := make(map[[2]int]int, n)
	for i := range n {
		key := [2]int{trees[i], ids[i]}
		if _, ok := at[key]; ok {
			r.failf("tree %d has two nodes %d", trees[i], ids[i])
		}
		at[key] = i
		if i == 0 || trees[i] != trees[i-1] {
			f.roots = append(f.roots, i)
		}
	}
	find := func(tree, id int) int {
		if i, ok := at[[2]int{tree, id}]; ok {
			return i
		}
		return -1
	}
	for i := range n {
		mode, ok := modeNames[modes[i]]
		if !ok && modes[i] != "LEAF" {
			r.failf("mode %q of node %d", modes[i], i)
		}
		f.nodes = append(f.nodes, treeNode{leaf: !ok, mode: mode, feature: features[i], split: splits[i], yes: find(trees[i], yes[i]), no: find(trees[i], no[i]),
			missing: len(missing) > 0 && missing[i] != 0})
	}
	r.castVotes(f, prefix, find)
	if err := f.check(targets); err != nil {
		r.failf("%w", err)
	}
	return f
}

// castVotes returns the leaves their votes, those of one leaf one after the other.
func (r *reader) castVotes(f *forest, prefix string, find func(tree, id int) int) {
	list := func(name string) []int { return r.ints(prefix + name) }
	trees, ids, of, weights := list("_treeids"), list("_nodeids"), list("_ids"), r.doubles(prefix+"_weights")
	if len(ids) != len(trees) || len(of) != len(trees) || len(weights) != len(trees) {
		r.failf("%d trees, %d nodes, %d targets and %d weights of leaves", len(trees), len(ids), len(of), len(weights))
	}
	byLeaf := make([][]vote, len(f.nodes))
	for i := range trees {
		k := find(trees[i], ids[i])
		if k < 0 || !f.nodes[k].leaf {
			r.failf("a weight for node %d of tree %d, which is no leaf", ids[i], trees[i])
		}
		byLeaf[k] = append(byLeaf[k], vote{of[i], weights[i]})
	}
	for k, votes := range byLeaf {
		f.nodes[k].first = len(f.votes)
		f.votes = append(f.votes, votes...)
		f.nodes[k].end = len(f.votes)
	}
}

// doubles reads an attribute of floats, or the tensor that newer versions may give in its place.
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

func readTreeEnsembleRegressor(r *reader) *rowModel {
	targets := r.int("n_targets", 1)
	aggregate, ok := aggregateNames[r.text("aggregate_function", "SUM")]
	base := r.doubles("base_values")
	if len(base) == 0 && targets > 0 && targets <= MaxSize {
		base = make([]float64, targets)
	}
	if !ok || targets < 1 || len(base) != targets {
		r.failf("aggregate_function %q of %d targets with %d base_values", r.text("aggregate_function", ""), targets, len(base))
	}
	f, post := r.branches("target", targets), r.transform(targets)
	return regressor(tensor.F32, targets, f.features(), func(x []float64) []float64 {
		s := f.score(x, aggregate, base)
		post(s)
		return s
	})
}

// readTreeEnsembleClassifier: a score for each label. Where all leaves vote for one of two labels, the score says which of
// the two it is: above one half if no weight is negative, and above 0 otherwise.
func readTreeEnsembleClassifier(r *reader) *rowModel {
	labels := r.classLabels("classlabels_int64s")
	n := labels.Len()
	f, base := r.branches("class", n), r.doubles("base_values")
	k := &rowModel{labels: labels, width: n, features: f.features()}
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
		k.score = func(x []float64) ([]float64, int) {
			s := 0.0
			for _, v := range append(f.score(x, total, make([]float64, 2)), base...) { // the other label has no votes
				s += v
			}
			switch {
			case logistic && positive:
				return []float64{sigmoid(-s), sigmoid(s)}, signOf(s - 0.5)
			case logistic:
				return []float64{sigmoid(-s), sigmoid(s)}, signOf(s)
			case positive:
				return []float64{1 - s, s}, signOf(s - 0.5)
			}
			return []float64{-s, s}, signOf(s)
		}
		return k
	}
	if len(base) == 0 {
		base = make([]float64, n)
	}
	if len(base) != n {
		r.failf("%d base_values for %d labels", len(base), n)
	}
	post := r.transform(n)
	k.score = func(x []float64) ([]float64, int) {
		s := f.score(x, total, base)
		best := argMax(s)
		post(s)
		return s, best
	}
	return k
}

// readSets reads the members of the nodes that ask for membership, in their order, each list ended by a NaN.
func (f *forest) readSets(values *tensor.Tensor) error {
	at := 0
	for i := range f.nodes {
		if f.nodes[i].leaf || f.nodes[i].mode != member {
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
		f.nodes[i].members = set
	}
	return nil
}
