package lower

import (
	"fmt"
	"math"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A forest is decision trees in one table of nodes.
type forest struct {
	nodes []treeNode
	votes []vote
	roots []int
}

// A treeNode asks for one feature, or is a leaf that casts votes.
type treeNode struct {
	leaf          bool
	mode          int
	feature       int
	split         float64
	members       map[float64]bool // of mode member
	yes, no       int              // nodes
	missing       bool             // whether NaN goes to yes
	first, behind int              // votes of a leaf
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
		for _, v := range f.votes[leaf.first:leaf.behind] {
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

// lowerTreeEnsemble: nodes and leaves in tables that refer to each other.
func lowerTreeEnsemble(c *Context) []*ir.Value {
	x, targets := c.In(0), c.AttrInt("n_targets", 1)
	if post := c.AttrInt("post_transform", 0); post != 0 {
		c.Unsupportedf("post_transform %d", post)
	}
	aggregate := c.AttrInt("aggregate_function", total)
	c.IgnoreAttr("nodes_hitrates")
	table := func(name string) *tensor.Tensor { t, _ := c.AttrTensor(name); return t.Aligned() }
	list := func(name string) []int { v, _ := c.AttrInts(name); return v }
	splits, weights, modes := table("nodes_splits"), table("leaf_weights"), table("nodes_modes")
	n, leaves := splits.Len(), weights.Len()
	columns := map[string][]int{}
	for _, name := range []string{"nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs"} {
		if columns[name] = list(name); len(columns[name]) != n {
			c.Failf("%s has %d entries for %d nodes", name, len(columns[name]), n)
		}
	}
	of, missing := list("leaf_targetids"), list("nodes_missing_value_tracks_true")
	if modes.Len() != n || len(of) != leaves || len(missing) != 0 && len(missing) != n {
		c.Failf("%d modes and %d entries of nodes_missing_value_tracks_true for %d nodes, %d targets for %d leaves", modes.Len(), len(missing), n, len(of), leaves)
	}
	if Rank(x) != 2 || targets < 1 || targets > maxWindow || aggregate < average || aggregate > most {
		c.Failf("%v, %d targets, aggregate_function %d", x.Type, targets, aggregate)
	}
	f := &forest{roots: list("tree_roots")}
	next := func(to, isLeaf int) int { // leaves stand behind the nodes
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
		f.nodes = append(f.nodes, treeNode{leaf: true, first: i, behind: i + 1})
		f.votes = append(f.votes, vote{of[i], weights.Float64(i)})
	}
	members, ok := c.AttrTensor("membership_values")
	if !ok {
		members = tensor.New(splits.DType(), 0)
	}
	if err := f.readSets(members.Aligned()); err != nil {
		c.Failf("%w", err)
	}
	if err := f.check(targets); err != nil {
		c.Failf("%w", err)
	}
	base := make([]float64, targets)
	return c.regress(x.Type.DType, targets, f.features(), func(x []float64) []float64 { return f.score(x, aggregate, base) })
}

// branches reads the tables of the older operators, where trees and nodes have numbers of their own, and the leaves' votes,
// whose attributes begin with prefix: "target" or "class".
func (c *Context) branches(prefix string, targets int) *forest {
	c.IgnoreAttr("nodes_hitrates", "nodes_hitrates_as_tensor")
	list := func(name string) []int { v, _ := c.AttrInts(name); return v }
	trees, ids := list("nodes_treeids"), list("nodes_nodeids")
	features, yes, no, missing := list("nodes_featureids"), list("nodes_truenodeids"), list("nodes_falsenodeids"), list("nodes_missing_value_tracks_true")
	modes, _ := c.AttrStrings("nodes_modes")
	splits := c.doubles("nodes_values")
	n := len(trees)
	for name, k := range map[string]int{"nodes_nodeids": len(ids), "nodes_featureids": len(features), "nodes_truenodeids": len(yes), "nodes_falsenodeids": len(no),
		"nodes_modes": len(modes), "nodes_values": len(splits), "nodes_missing_value_tracks_true": max(len(missing), n)} {
		if k != n || n == 0 {
			c.Failf("%s has %d entries for %d nodes", name, k, n)
		}
	}
	f := &forest{}
	at := make(map[[2]int]int, n)
	for i := range n {
		key := [2]int{trees[i], ids[i]}
		if _, ok := at[key]; ok {
			c.Failf("tree %d has two nodes %d", trees[i], ids[i])
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
			c.Failf("mode %q of node %d", modes[i], i)
		}
		f.nodes = append(f.nodes, treeNode{leaf: !ok, mode: mode, feature: features[i], split: splits[i], yes: find(trees[i], yes[i]), no: find(trees[i], no[i]),
			missing: len(missing) > 0 && missing[i] != 0})
	}
	c.castVotes(f, prefix, find)
	if err := f.check(targets); err != nil {
		c.Failf("%w", err)
	}
	return f
}

// castVotes gives the leaves their votes, those of one leaf behind each other.
func (c *Context) castVotes(f *forest, prefix string, find func(tree, id int) int) {
	list := func(name string) []int { v, _ := c.AttrInts(prefix + name); return v }
	trees, ids, of, weights := list("_treeids"), list("_nodeids"), list("_ids"), c.doubles(prefix+"_weights")
	if len(ids) != len(trees) || len(of) != len(trees) || len(weights) != len(trees) {
		c.Failf("%d trees, %d nodes, %d targets and %d weights of leaves", len(trees), len(ids), len(of), len(weights))
	}
	byLeaf := make([][]vote, len(f.nodes))
	for i := range trees {
		k := find(trees[i], ids[i])
		if k < 0 || !f.nodes[k].leaf {
			c.Failf("a weight for node %d of tree %d, which is no leaf", ids[i], trees[i])
		}
		byLeaf[k] = append(byLeaf[k], vote{of[i], weights[i]})
	}
	for k, votes := range byLeaf {
		f.nodes[k].first = len(f.votes)
		f.votes = append(f.votes, votes...)
		f.nodes[k].behind = len(f.votes)
	}
}

// doubles reads an attribute of floats, or the tensor that newer versions may give in its place.
func (c *Context) doubles(name string) []float64 {
	t, ok := (*tensor.Tensor)(nil), false
	if c.Version() >= 3 {
		t, ok = c.AttrTensor(name + "_as_tensor")
	}
	if !ok {
		return c.numbers(name)
	}
	if c.HasAttr(name) || !t.DType().IsFloat() {
		c.Failf("%s is given twice, or as %v", name, t)
	}
	return t.Float64s()
}

func lowerTreeEnsembleRegressor(c *Context) []*ir.Value {
	targets := c.AttrInt("n_targets", 1)
	aggregate, ok := aggregateNames[c.AttrString("aggregate_function", "SUM")]
	base := c.doubles("base_values")
	if len(base) == 0 && targets > 0 && targets <= maxWindow {
		base = make([]float64, targets)
	}
	if !ok || targets < 1 || len(base) != targets {
		c.Failf("aggregate_function %q of %d targets with %d base_values", c.AttrString("aggregate_function", ""), targets, len(base))
	}
	f, post := c.branches("target", targets), c.transform(targets)
	return c.regress(tensor.F32, targets, f.features(), func(x []float64) []float64 {
		s := f.score(x, aggregate, base)
		post(s)
		return s
	})
}

// lowerTreeEnsembleClassifier: a score for each label. Where all leaves vote for one of two labels, the score says which of
// the two it is: above one half if no weight is negative, and above 0 otherwise.
func lowerTreeEnsembleClassifier(c *Context) []*ir.Value {
	labels := c.classLabels("classlabels_int64s")
	n := labels.Len()
	f, base := c.branches("class", n), c.doubles("base_values")
	k := classifier{labels: labels, width: n}
	positive, single := true, n == 2
	for _, v := range f.votes {
		positive = positive && v.weight >= 0
		single = single && v.target == f.votes[0].target
	}
	if single {
		if len(base) > 1 {
			c.Unsupportedf("%d base_values for one score of two labels", len(base))
		}
		logistic := c.AttrString("post_transform", "NONE") == "LOGISTIC"
		c.transform(1)
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
		return c.classify(k, f.features())
	}
	if len(base) == 0 {
		base = make([]float64, n)
	}
	if len(base) != n {
		c.Failf("%d base_values for %d labels", len(base), n)
	}
	post := c.transform(n)
	k.score = func(x []float64) ([]float64, int) {
		s := f.score(x, total, base)
		best := argMax(s)
		post(s)
		return s, best
	}
	return c.classify(k, f.features())
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
