package ops

import (
	"fmt"
	"math"
	"slices"
)

// A Forest is decision trees that vote. The nodes of a tree are in the order in which a walk meets them: where a comparison holds, the
// next node is the one after it.
type Forest struct {
	nodes  []treeNode
	roots  []int32
	votes  []vote
	starts []int32 // index of the first vote of each leaf
	sets   []map[float64]bool
	plain  bool // all branches ask whether a feature is at most a number

	features, targets, aggregate int

	// finish replaces the sums of a row, by target, by its scores, and returns the position of the row's label. The tallies report which
	// targets have votes.
	finish func(s []float64, t []Tally) int
}

// A treeNode compares a feature, or is a leaf, which leads to itself: several trees are walked at once, until all are at leaves.
type treeNode struct {
	split float64 // number to compare with; for a leaf, a NaN with the leaf's number in its lower bits; for a set, its index in Forest.sets
	test  uint32  // operation, whether NaN passes the comparison, and feature, as bit fields
	no    int32
}

// The operations of a treeNode. All other comparisons are expressed by these.
const (
	isAtMost uint32 = iota
	isEqual
	isMember
	isLeaf

	testMask = 3
	nanStays = 4
	toTest   = 3 // bits before the feature

	maxFeatures = 1 << (32 - toTest)
)

func leafNode(at, leaf int) treeNode {
	return treeNode{split: math.Float64frombits(math.Float64bits(math.NaN())&^math.MaxUint32 | uint64(leaf)), test: isLeaf, no: int32(at)}
}

type vote struct {
	target int
	weight float64
}

// A Tally is what trees have voted for one target.
type Tally struct {
	sum   float64
	voted bool
}

func (t *Tally) add(weight float64, aggregate int) {
	switch {
	case !t.voted, aggregate == least && weight < t.sum, aggregate == most && weight > t.sum:
		t.sum = weight
	case aggregate == average, aggregate == total:
		t.sum += weight
	}
	t.voted = true
}

// Targets is how many tallies a row needs.
func (f *Forest) Targets() int { return f.targets }

// Trees are counted in blocks, which follow from their number alone: so do the sums.
const (
	mostBlocks    = 8
	treesPerBlock = 32
)

// Blocks is how many blocks of trees vote apart.
func (f *Forest) Blocks() int {
	return max(1, min(mostBlocks, len(f.roots)/treesPerBlock))
}

func (f *Forest) block(i int) []int32 {
	n, blocks := len(f.roots), f.Blocks()
	return f.roots[i*n/blocks : (i+1)*n/blocks]
}

// A Feature is a number that trees compare.
type Feature interface {
	~float32 | ~float64 | ~int32 | ~int64
}

// Vote counts the votes of a block of trees for some rows of x.
func Vote[T Feature](f *Forest, block int, x []T, rows int, tallies []Tally) {
	clear(tallies)
	roots, width := f.block(block), len(x)/rows
	if f.plain && !slices.ContainsFunc(x, func(v T) bool { return v != v }) {
		for ; len(roots) >= 4; roots = roots[4:] {
			for r := range rows {
				for _, leaf := range walkFour(f.nodes, [4]int32(roots), x[r*width:][:width]) {
					f.count(leaf, tallies[r*f.targets:])
				}
			}
		}
	}
	for _, root := range roots {
		for r := range rows {
			f.count(walk(f, root, x[r*width:][:width]), tallies[r*f.targets:])
		}
	}
}

// walkFour walks four trees of plain comparisons. Nothing in it is jumped over: which way a walk goes cannot be predicted.
func walkFour[T Feature](nodes []treeNode, i [4]int32, x []T) [4]int32 {
	a, b, c, d := i[0], i[1], i[2], i[3]
	for {
		p, q, r, s := &nodes[a], &nodes[b], &nodes[c], &nodes[d]
		if p.test&q.test&r.test&s.test&testMask == isLeaf {
			return [4]int32{a, b, c, d}
		}
		a, b, c, d = a+1, b+1, c+1, d+1
		if !(float64(x[p.test>>toTest]) <= p.split) {
			a = p.no
		}
		if !(float64(x[q.test>>toTest]) <= q.split) {
			b = q.no
		}
		if !(float64(x[r.test>>toTest]) <= r.split) {
			c = r.no
		}
		if !(float64(x[s.test>>toTest]) <= s.split) {
			d = s.no
		}
	}
}

// walk walks any tree.
func walk[T Feature](f *Forest, i int32, x []T) int32 {
	for {
		n := &f.nodes[i]
		if n.test&testMask == isLeaf {
			return i
		}
		v := float64(x[n.test>>toTest])
		var yes bool
		switch n.test & testMask {
		case isAtMost:
			yes = v <= n.split
		case isEqual:
			yes = v == n.split
		default:
			yes = f.sets[int(n.split)][v]
		}
		if i++; !yes && (v == v || n.test&nanStays == 0) {
			i = n.no
		}
	}
}

func (f *Forest) count(i int32, tallies []Tally) {
	leaf := uint32(math.Float64bits(f.nodes[i].split))
	votes := f.votes[f.starts[leaf]:f.starts[leaf+1]]
	if f.aggregate == average || f.aggregate == total { // what most forests do, without a branch
		for _, v := range votes {
			t := &tallies[v.target]
			t.sum += v.weight
			t.voted = true
		}
		return
	}
	for _, v := range votes {
		tallies[v.target].add(v.weight, f.aggregate)
	}
}

// Finish merges the tallies of a row's blocks, which are stride apart, into those of the first block. It writes the row's scores and
// returns the position of the row's label.
func (f *Forest) Finish(tallies []Tally, stride int, scores []float64) int {
	for i := range scores {
		t := &tallies[i]
		for b := 1; b < f.Blocks(); b++ {
			if more := tallies[b*stride+i]; more.voted {
				t.add(more.sum, f.aggregate)
			}
		}
		if scores[i] = t.sum; f.aggregate == average {
			scores[i] /= float64(len(f.roots))
		}
	}
	return f.finish(scores, tallies)
}

// score is the scores of one row.
func (f *Forest) score(x []float64) ([]float64, int) {
	tallies, scores := make([]Tally, f.Blocks()*f.targets), make([]float64, f.targets)
	for b := range f.Blocks() {
		Vote(f, b, x, 1, tallies[b*f.targets:][:f.targets])
	}
	label := f.Finish(tallies, f.targets, scores)
	return scores, label
}

// model is the forest as a model of rows. The scores are what finish makes of the sums.
func (f *Forest) model(m rowModel, finish func(s []float64, t []Tally) int) *rowModel {
	f.finish = finish
	m.width, m.features, m.forest, m.score = f.targets, f.features, f, f.score
	return &m
}

// A treeTable is trees as a model has them, in columns of nodes.
type treeTable struct {
	modes    []uint8
	features []int64
	splits   []float64
	missing  []int64 // whether NaN goes to yes where the comparison does not hold; none: it never does
	roots    []int
	next     func(i int) (yes, no int) // −1 for a node that is not there

	votes  []vote
	starts []int32 // index of the first vote of each node, and the number of votes
	sets   map[int]map[float64]bool
}

// flatten makes a forest. It looks at every reference once, so that walking a tree cannot leave the tables or go round for ever.
func (t *treeTable) flatten(targets, aggregate int) (*Forest, error) {
	n := len(t.modes)
	for _, v := range t.votes {
		if v.target < 0 || v.target >= targets {
			return nil, fmt.Errorf("a leaf is of target %d of %d", v.target, targets)
		}
	}
	if n > math.MaxInt32/4 || len(t.votes) > math.MaxInt32 {
		return nil, fmt.Errorf("%d nodes with %d votes are too many", n, len(t.votes))
	}
	f := &Forest{nodes: make([]treeNode, 0, n), votes: t.votes, starts: t.starts, plain: true, targets: targets, aggregate: aggregate}
	seen := make([]bool, n)
	type edge struct{ to, from int }
	var visit []edge
	for _, r := range t.roots {
		if r < 0 || r >= n {
			return nil, fmt.Errorf("a tree begins at node %d of %d", r, n)
		}
		f.roots = append(f.roots, int32(len(f.nodes)))
		visit = append(visit, edge{r, -1})
		for len(visit) > 0 {
			i, from, at := visit[len(visit)-1].to, visit[len(visit)-1].from, len(f.nodes)
			visit = visit[:len(visit)-1]
			if from >= 0 {
				f.nodes[from].no = int32(at)
			}
			if t.modes[i] == leaf {
				f.nodes = append(f.nodes, leafNode(at, i))
				continue
			}
			if seen[i] {
				return nil, fmt.Errorf("node %d has two ways to it", i)
			}
			seen[i] = true
			yes, no := t.next(i)
			for _, to := range []int{yes, no} {
				if to < 0 || to >= n {
					return nil, fmt.Errorf("node %d leads to a node that is not among the %d", i, n)
				}
			}
			feature := t.features[i]
			if feature < 0 || feature >= maxFeatures || t.modes[i] > member {
				return nil, fmt.Errorf("node %d compares feature %d by mode %d: features go to %d, modes to %d", i, feature, t.modes[i],
					maxFeatures-1, member)
			}
			test, split, flipped := comparison(int(t.modes[i]), t.splits[i])
			if flipped {
				yes, no = no, yes
			}
			toYes := t.modes[i] == unequal || t.missing != nil && t.missing[i] != 0 // NaN is unequal to everything
			if toYes != flipped {
				test |= nanStays
			}
			if test&testMask == isMember {
				split = float64(len(f.sets))
				f.sets = append(f.sets, t.sets[i])
			}
			f.plain = f.plain && test&testMask == isAtMost
			f.features = max(f.features, int(feature)+1)
			f.nodes = append(f.nodes, treeNode{split: split, test: test | uint32(feature)<<toTest})
			visit = append(visit, edge{no, at}, edge{yes, -1})
		}
	}
	f.plain = f.plain && f.features > 0 // a leaf compares feature 0, for nothing
	return f, nil
}

// comparison expresses a comparison with split by those that nodes have; negated, if its opposite is meant. Of what is not NaN, v < s
// holds where v is at most the number before s.
func comparison(mode int, split float64) (test uint32, s float64, flipped bool) {
	before := math.Nextafter(split, math.Inf(-1))
	if split == before {
		before = math.NaN() // nothing is below −∞
	}
	never := math.IsNaN(split)
	switch mode {
	case below:
		return isAtMost, before, false
	case atLeast:
		return isAtMost, before, !never
	case above:
		return isAtMost, split, !never
	case equalTo:
		return isEqual, split, false
	case unequal:
		return isEqual, split, true
	case member:
		return isMember, split, false
	}
	return isAtMost, split, false
}
