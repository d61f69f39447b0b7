// Package rewrite turns a lowered graph into an equivalent one that runs in fewer steps.
//
// The list of passes below is what happens, and in which order. Most passes are rules: rows of a pattern and its replacement, which the
// engine applies wherever they match. A rule only describes; the engine decides whether it may be applied (see engine). So a fusion is
// one row, and one text before and after it in testdata.
package rewrite

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
)

// The levels.
const (
	O0 = options.O0 // the graph as the model has it
	O1 = options.O1 // folding, dead code, common subexpressions, identities
	O2 = options.O2 // all fusions
)

// A pass is a row of the list. It has either rules or a function, which returns the number of times that it changed
// something.
type pass struct {
	name  string
	about string // sentence without its subject, which is the pass: "removes operations whose results nothing needs"
	level options.Level
	rules []*Rule
	merge bool // cse whenever the rules went through the graph
	run   func(g *ir.Graph) int
	// prove changes the graph or returns the reason why it cannot. It runs if Options.Unpad is set. nil for passes of rules.
	prove func(g *ir.Graph, t *target.Target, exact bool) (count int, why string)
	index *byKind // the rules by kind; made once, because a pass runs on each subgraph, and a model may have 100,000
}

func init() {
	for i := range passes {
		if passes[i].about == "" {
			panic("rewrite: pass " + passes[i].name + " has no sentence")
		}
		passes[i].index = index(passes[i].rules)
	}
}

// passes is everything that Run does, in order. passOrder has the reasons.
var passes = []pass{
	// Sizes become constants first: most of what exporters write only computes shapes, which the lowering has read
	// already, and is dead after this.
	{name: "fold", about: "computes once what depends on constants alone, and removes operations that change nothing, such as x·1",
		level: O1, rules: slices.Concat(foldRules, identityRules)},
	{name: "dce", about: "removes operations whose results nothing needs; dce is dead code elimination",
		level: O1, run: dce},
	// Patterns say "the same value" and mean it: what is computed twice must be one value before they are matched.
	{name: "cse", about: "computes once what several nodes compute alike; cse is common subexpression elimination",
		level: O1, run: cse},

	// What the target cannot convolve it multiplies, and caches that it cannot append to are gathered.
	{name: "convolutions", about: "replaces convolutions and appended caches that the device has no kernel for by products and gathers",
		level: O2, rules: append(convRules(), appendRule())},

	// Products of quantised values are written in many ways.
	{name: "quantised", about: "finds products of quantised values in the many forms that exporters write",
		level: O2, rules: slices.Concat(quantSumRules(), quantRules(), weightRules(), quantEpilogueRules(), nBitsRules(),
			identityRules)},
	{name: "qdq pairs", about: "removes pairs that quantise a value and restore it at once, which only round",
		level: O2, rules: slices.Concat(qdqPairRules(), identityRules)},
	{name: "canonical", about: "writes operations that have several spellings in one, such as a division by a constant as a product",
		level: O2, rules: slices.Concat(canonicalRules(), identityRules)},
	// Masks and positions: what only counts becomes views and constants, and what is stretched is computed small.
	{name: "positions", about: "replaces masks, positions and indices that are computed by views, ranges and constants",
		level: O2, rules: slices.Concat(indexRules(), []*Rule{oneHotRule()}, broadcastRules(), quantExpandRules(),
			foldRules, identityRules)},
	{name: "primitives", about: "joins the nodes of an activation, a norm or a rotary embedding into one operation",
		level: O2, rules: slices.Concat(activationRules(), normRules(), rotaryRules())},
	// Views move after what does not care for them, so that products, norms and activations are side by side.
	{name: "products", about: "moves transposes, scales and biases into products, and views behind what does not depend on them",
		level: O2, rules: slices.Concat(matmulRules(), sinkRules(), transposeRules(), []*Rule{convPadRule()},
			identityRules)},
	{name: "attention", about: "joins the products, the mask and the softmax of an attention into one operation",
		level: O2, rules: slices.Concat(attentionRules(), causalRules(), sinkRules(), broadcastRules(), identityRules)},
	{name: "rows", about: "computes only those rows whose results are used, such as the first token's in the last layer",
		level: O2, rules: slices.Concat(rowRules(), identityRules), merge: true},
	{name: "qkv", about: "joins products that read the same operand, such as those for queries, keys and values, into one",
		level: O2, rules: append(qkvRules(), quantQKVRule(), blockQKVRule())},
	{name: "embeddings", about: "joins lookups in tables, their sum and the norm that follows into one operation",
		level: O2, rules: embeddingRules()},
	// Activations and residuals go into products and norms.
	{name: "epilogues", about: "moves activations and residuals into the product, convolution or norm before them",
		level: O2, rules: slices.Concat(quantSumRules(), quantEpilogueRules(), quantLateRules(), nBitsRules(),
			epilogueRules(), matmulColumnRules(), convEpilogueRules(), identityRules)},
	{name: "quantised blocks", about: "joins the quantisation of results into attentions, norms and views, which return quantised values",
		level: O2, rules: slices.Concat(quantAttentionRules(), quantNormRules(),
			[]*Rule{quantViewRule(), quantQKVRule(), widenRule()}, identityRules)},
	{name: "late cse", about: "removes what has become equal by the passes before",
		level: O2, run: cse},
	{name: "late dce", about: "removes what nothing needs since the passes before",
		level: O2, run: dce},
	// After the fusions, so that it has to handle few ops.
	{name: "unpad", about: "removes padding tokens from all that is computed token by token, if a proof allows it; only with --unpad",
		level: O2, prove: unpad},
	{name: "fused elementwise", about: "joins neighbouring elementwise operations into one pass over memory",
		level: O2, rules: slices.Concat([]*Rule{grownConstant()}, foldRules, elementwiseRules())},
	{name: "order", about: "sorts the steps by how the outputs depend on them, so that the order in the model's file has no effect",
		level: O2, run: order},
}

// Options are the options of the compilation. Run uses Level, which is not empty; Exact; Unpad, which skips padding if a proof allows it;
// and Verify, which runs ir.Verify after every pass and makes rules that do not terminate an error.
type Options = options.Compile

// EnvDump names the environment variable of a folder for the options of a compilation, the IR after each pass, and a page that shows all
// of them.
const EnvDump = "RLXC_DUMP"

// Stats is what Run did.
type Stats struct {
	Before, After int         // nodes
	Steps         int         // nodes that are not views, after all passes
	Rules         []RuleCount // rules that applied, in the order of the passes
	NearMisses    []NearMiss
	Padded        string // why padding is not skipped although Options.Unpad is set; otherwise empty
	// Endless names the passes whose rules did not terminate and were stopped, each with the busiest rule. This is an error in the rules.
	// The graph is still correct, but perhaps slower than possible.
	Endless []string
}

// A RuleCount is the number of times that a rule, or a pass without rules, changed the graph.
type RuleCount struct {
	Pass, Rule string
	Count      int
}

// A NearMiss is a position where a rule almost applied.
type NearMiss struct {
	Rule string
	Node string // where the rule started
	At   string // the value that stopped it
	Why  string
}

// String returns one line of text.
func (n NearMiss) String() string {
	return fmt.Sprintf("%s at node %s: %s: %s", n.Rule, n.Node, n.At, n.Why)
}

// Run rewrites g in place for a target. A nil target supports everything but convolutions and caches. Values are renumbered. When ctx
// ends, Run returns its error before the next pass.
func Run(ctx context.Context, g *ir.Graph, t *target.Target, o Options) (*Stats, error) {
	return run(ctx, g, t, o, false)
}

// RunSubgraph is Run for the subgraph of a node. It does not unpad, and assumes nothing about the use of the results.
func RunSubgraph(ctx context.Context, g *ir.Graph, t *target.Target, o Options) (*Stats, error) {
	return run(ctx, g, t, o, true)
}

func run(ctx context.Context, g *ir.Graph, t *target.Target, o Options, subgraph bool) (*Stats, error) {
	s := &Stats{Before: len(g.Nodes)}
	d := newDumper(ctx, os.Getenv(EnvDump), g)
	misses := map[*ir.Node][]NearMiss{}
	for i, p := range passes {
		if p.prove != nil && (!o.Unpad || subgraph) {
			continue
		}
		if p.level > o.Level {
			if p.prove != nil {
				s.Padded = "only -O 2 skips it"
			}
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var counts []RuleCount
		var endless string
		if p.prove != nil {
			var n int
			if n, s.Padded = p.prove(g, t, o.Exact); s.Padded == "" {
				counts = []RuleCount{{p.name, p.name, n}}
			}
		} else {
			counts, endless = p.apply(g, t, how{merge: p.merge, exact: o.Exact, subgraph: subgraph}, misses)
		}
		s.Rules = append(s.Rules, counts...)
		if endless != "" {
			s.Endless = append(s.Endless, p.name+": "+endless)
		}
		if o.Verify {
			if endless != "" {
				return nil, fmt.Errorf("pass %s: the rules do not terminate: %s", p.name, endless)
			}
			if err := ir.Verify(g); err != nil {
				return nil, fmt.Errorf("after pass %s: %w", p.name, err)
			}
		}
		if err := d.pass(i, &p, g); err != nil {
			return nil, err
		}
	}
	if o.Level > O0 {
		g.Renumber()
	}
	for _, n := range g.Nodes {
		s.NearMisses = append(s.NearMisses, misses[n]...) // those of nodes that went away after all were no misses
		if !n.Op.Kind().Has(ir.View) {
			s.Steps++
		}
	}
	s.After = len(g.Nodes)
	return s, d.close()
}

func (p pass) apply(g *ir.Graph, t *target.Target, h how, misses map[*ir.Node][]NearMiss) (counts []RuleCount, endless string) {
	if p.run != nil {
		if n := p.run(g); n > 0 {
			counts = append(counts, RuleCount{p.name, p.name, n})
		}
		return counts, ""
	}
	e := apply(g, t, p.index, h)
	if e.endless() {
		endless = e.busiest()
	}
	for _, r := range p.rules {
		if n := e.fired[r]; n > 0 {
			counts = append(counts, RuleCount{p.name, r.Name, n})
		}
		if len(e.misses) == 0 || r.near == 0 {
			continue
		}
		for _, n := range g.Nodes {
			if miss, ok := e.misses[missKey{r, n}]; ok {
				misses[n] = append(misses[n], miss)
			}
		}
	}
	return counts, endless
}
