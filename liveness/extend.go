package liveness

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
)

// Kernels may read their operands after their step (target.Kernel.LateReads), and more than the graph shows. The extensions
// answer for such reads, each for its own; the reads of which none speaks belong to the lives themselves.

// A rule is one extension. find looks for what it is about, which does not depend on the order of the steps; it finds the zero
// finding in most graphs.
type rule struct {
	name string
	find func(m *Memory) finding
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
	// claims reports whether the rule answers for a late read of a buffer by a step; nil: for none.
	claims func(step int, b int32) bool
	// reads are reads that the graph does not show: the policies exact and to-end demand them both.
	reads []read
	// chains are the buffers that the policy to-end keeps to the end with all that they are computed from, and ends those that it
	// keeps alone.
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
	e := extension{name: r.name, policy: policy, finding: r.find(m)}
	if policy != Off {
		for _, x := range e.reads {
			if reads := m.Reads[x.step]; !slices.Contains(reads, x.b) {
				m.Reads[x.step] = append(slices.Clip(reads), x.b)
			}
		}
	}
	if policy == ToEnd {
		e.held = m.keep(e.finding)
		for _, b := range e.held {
			m.Held[b] = true
		}
	}
	m.extensions = append(m.extensions, e)
}

// keep lists the buffers that the policy to-end keeps.
func (m *Memory) keep(f finding) (held []int32) {
	live := make([]bool, len(m.values))
	for _, b := range f.chains {
		m.chain(b, live)
	}
	for _, b := range f.ends {
		live[b] = true
	}
	for b, keep := range live {
		if keep {
			held = append(held, int32(b))
		}
	}
	return held
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
func (m *Memory) customInputs() (f finding) {
	custom := func(step int, _ int32) bool { return m.Steps[step].Op.Kind().Has(ir.KeepsCustom) }
	for s := range m.Steps {
		if custom(s, -1) {
			f.claims = custom
			f.chains = append(f.chains, m.reads[s]...)
		}
	}
	return f
}

// outputAncestors is about everything that the outputs are computed from.
func (m *Memory) outputAncestors() (f finding) {
	for _, v := range m.g.Outputs {
		f.chains = append(f.chains, m.of(v))
	}
	return f
}
