package liveness

import "github.com/rlxc/rlxc/ir"

// Kernels may read their operands after their step (target.Row.LateReads), and more than the graph shows. The extensions
// answer for such reads, each for its own; the reads of which none speaks belong to the lives themselves.

// A rule is one extension. find looks for what it is about, which does not depend on the order of the steps.
type rule struct {
	name string
	find func(m *Memory) (finding, bool)
}

var rules = []rule{
	{"custom-op inputs", (*Memory).customInputs},
	{"BERT hidden states", (*Memory).hiddenStates},
	{"packed QKV", (*Memory).packedQKV},
}

// pin is the rule of Options.PinOutputAncestors.
var pin = rule{"output ancestors", (*Memory).outputAncestors}

// A finding is what a rule found in a graph.
type finding struct {
	// claims reports whether the rule answers for a late read of a buffer by a step.
	claims func(step int, b int32) bool
	// reads are reads that the graph does not show: the policies exact and to-end demand them both.
	reads []read
	// chains are the buffers that the policy to-end keeps to the end with all that they are computed from, and ends those that it
	// keeps by themselves.
	chains, ends []int32
}

// A read of a buffer by a step.
type read struct {
	step int
	b    int32
}

// An extension is a rule that is in force for a graph.
type extension struct {
	name   string
	policy Policy
	finding
	held []int32 // buffers that it keeps to the end, by number
}

// extend puts the rules in force and adds what they ask for to the footprint.
func (m *Memory) extend(o Options) {
	for _, r := range rules {
		m.apply(r, o.Policy)
	}
	if o.PinOutputAncestors {
		m.apply(pin, ToEnd)
	}
}

func (m *Memory) apply(r rule, policy Policy) {
	e := extension{name: r.name, policy: policy}
	found, ok := r.find(m)
	if !ok {
		found = finding{}
	}
	if e.claims = found.claims; policy != Off {
		e.reads = found.reads
		for _, x := range found.reads {
			m.alsoReads(x)
		}
	}
	if policy == ToEnd {
		kept := make([]bool, len(m.values))
		for _, b := range found.chains {
			m.chain(b, kept)
		}
		for _, b := range found.ends {
			kept[b] = true
		}
		for b, keep := range kept {
			if keep {
				e.held = append(e.held, int32(b))
				m.Held[b] = true
			}
		}
	}
	m.extensions = append(m.extensions, e)
}

// alsoReads adds a read to the footprint.
func (m *Memory) alsoReads(x read) {
	for _, b := range m.Reads[x.step] {
		if b == x.b {
			return
		}
	}
	if &m.Reads[0] == &m.reads[0] {
		m.Reads = append([][]int32{}, m.reads...)
	}
	m.Reads[x.step] = append(m.Reads[x.step][:len(m.Reads[x.step]):len(m.Reads[x.step])], x.b)
}

// chain adds a buffer and all that it is computed from to a set.
func (m *Memory) chain(b int32, set []bool) {
	if set[b] {
		return
	}
	set[b] = true
	for open := []int32{b}; len(open) > 0; {
		b, open = open[len(open)-1], open[:len(open)-1]
		if m.writer[b] < 0 {
			continue
		}
		for _, source := range m.reads[m.writer[b]] {
			if !set[source] {
				set[source] = true
				open = append(open, source)
			}
		}
	}
}

// customInputs is about nodes with the custom trait, whose kernels may run later than their step: on the host, or as
// asynchronous copies.
func (m *Memory) customInputs() (f finding, found bool) {
	custom := make([]bool, len(m.Steps))
	for s, n := range m.Steps {
		if n.Op.Kind().Has(ir.KeepsCustom) {
			custom[s], found = true, true
			f.chains = append(f.chains, m.reads[s]...)
		}
	}
	f.claims = func(step int, _ int32) bool { return custom[step] }
	return f, found
}

// outputAncestors is about everything that the outputs are computed from.
func (m *Memory) outputAncestors() (f finding, found bool) {
	for _, v := range m.g.Outputs {
		f.chains = append(f.chains, m.of(v))
	}
	return f, len(f.chains) > 0
}
