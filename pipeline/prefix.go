package pipeline

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/rlxc/rlxc"
)

// A causal model computes the same keys and values for the first tokens of a sequence, whatever follows them. A decoder that reranks reads
// its template, the instruction and the query before each document. If the model has inputs and outputs for keys and values, these tokens
// run once, and each document of the query begins after them:
//
//	ids     [prefix]                ─► present         [1, heads, prefix, size]
//	ids     [documents, tokens]
//	past    [documents, heads, prefix, size] ─► logits [documents, tokens, words]
//
// Whether a model has these inputs is decided when it is opened (layout.past). Without them nothing is shared: in a run without padding,
// attention reads the keys of a sequence from the sequence's own rows.

// A prefix is the tokens that sequences of a call begin with, and the keys and values that the model has for them.
type prefix struct {
	tokens int
	of     [][]byte // content of each input in layout.past, [1, …, tokens, …]; nil until the tokens have run
}

// length returns the number of tokens; 0 for nil.
func (p *prefix) length() int {
	if p == nil {
		return 0
	}
	return p.tokens
}

// A pastInput is an input for keys or values, [batch, …, tokens, …].
type pastInput struct {
	rlxc.CacheInput
	size  int64 // bytes of a token of a sequence
	inner int64 // bytes of the axes after that of tokens
}

// findPast returns the inputs for keys and values through which sequences can share a prefix. It returns nil if the model has none, if its
// sizes are fixed, or if one of these inputs is something else than a row for each text with a place for each token.
func (l *layout) findPast(p *rlxc.Program) []pastInput {
	caches := p.CacheInputs()
	var list []pastInput
	for _, v := range l.inputs {
		if !isPast(v.Name) {
			continue
		}
		i := slices.IndexFunc(caches, func(c rlxc.CacheInput) bool { return c.Input == v.Name })
		if i < 0 || caches[i].Axis < 1 || l.fixed[batchAxis] > 0 || l.fixed[lengthAxis] > 0 || v.DType.Size() == 0 {
			return nil
		}
		in := pastInput{CacheInput: caches[i], size: int64(v.DType.Size()), inner: int64(v.DType.Size())}
		for axis, size := range v.Shape {
			counted, known := l.dims[unquoted(size)]
			n, err := strconv.Atoi(size)
			switch {
			case axis == 0 && known && counted == batchAxis, axis == in.Axis && known && counted == pastAxis:
			case axis > 0 && axis != in.Axis && err == nil:
				in.size *= int64(n)
				if axis > in.Axis {
					in.inner *= int64(n)
				}
			default:
				return nil
			}
		}
		list = append(list, in)
	}
	return list
}

// pastBytes returns the bytes of the keys and values of that many tokens.
func (l *layout) pastBytes(tokens int) (n int64) {
	for _, in := range l.past {
		n += in.size * int64(tokens)
	}
	return n
}

// writePast writes the prefix of each sequence into the inputs of a batch.
func (l *layout) writePast(inputs rlxc.Tensors, sequences []*sequence) {
	for k, in := range l.past {
		to := inputs[in.Input].Bytes()
		for _, s := range sequences {
			to = to[copy(to, s.past.of[k]):]
		}
	}
}

// read takes the keys and values of sequence i of a batch, which has the tokens of the prefix and nothing before them.
func (p *prefix) read(l *layout, b *batch, i int) error {
	of := make([][]byte, len(l.past))
	for k, in := range l.past {
		t := b.out[in.Output]
		if t.Rank() <= in.Axis || t.Shape()[0] != b.count || t.Shape()[in.Axis] != b.length ||
			int64(len(t.Bytes())) != in.size*int64(b.count*b.length) {
			return fmt.Errorf("pipeline: output %q is %v: want keys or values of %d sequences of %d tokens", in.Output, t, b.count,
				b.length)
		}
		row := len(t.Bytes()) / b.count
		own, all := p.tokens*int(in.inner), b.length*int(in.inner) // bytes without padding, and with it
		for from := t.Bytes()[i*row : (i+1)*row]; len(from) > 0; from = from[all:] {
			of[k] = append(of[k], from[:own]...)
		}
	}
	p.of = of
	return nil
}

// keep counts the bytes of a prefix in the memory of the engine, up to the limit of a session. It returns false if there is no room.
func (e *padded) keep(bytes int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if bytes > e.limit-e.kept {
		return false
	}
	e.kept += bytes
	return true
}

// drop gives back what keep counted.
func (e *padded) drop(bytes int64) {
	e.mu.Lock()
	e.kept -= bytes
	e.mu.Unlock()
}
