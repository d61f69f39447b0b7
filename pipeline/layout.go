package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
	"github.com/rlxc/rlxc/tokenizer"
)

// A layout is what the inputs of a model are: how sequences become tensors.
type layout struct {
	inputs []rlxc.ValueInfo
	names  []string        // the model's symbols
	dims   map[string]axis // axes that the model's symbols count
	fixed  sizes           // 0 where the model leaves them open
	first  int             // number of the first position
	width  int             // words of the longest span that a model labels
	pad    int64
	past   []pastInput // inputs for keys and values of a prefix; nil if sequences cannot share a prefix (see prefix.go)
}

// An axis is what a size of an input or output counts.
type axis uint8

const (
	batchAxis axis = iota
	lengthAxis
	pastAxis  // tokens of earlier runs: those of a prefix that the sequences of the batch share; else 0
	allAxis   // tokens of earlier runs and of this one
	spanAxis  // spans of the words of the text that has the most
	onceAxis  // one for each text
	endsAxis  // the first word of a span and the last
	picksAxis // tokens of each text whose logits are computed: see pickedInput
	sizeAxis  // of outputs: a number that depends neither on texts nor on tokens
	axisCount
)

// sizes are sizes by axis.
type sizes [axisCount]int

// A filler is an input of tokens or words. It writes a sequence's elements, from the at-th on; what it leaves is padding.
type filler struct {
	axes  []axis
	words bool // of models that label words
	write func(l *layout, t *tensor.Tensor, at int, r *sequence)
}

// idsName is the input that every model of text has.
const idsName = "input_ids"

var perToken = []axis{batchAxis, lengthAxis}

// fillers are the inputs of a sequence's tokens and words, by the names that exporters give them.
var fillers = map[string]filler{
	idsName:          {axes: perToken, write: func(_ *layout, t *tensor.Tensor, at int, r *sequence) { setAll(t, at, r.ids) }},
	"token_type_ids": {axes: perToken, write: func(_ *layout, t *tensor.Tensor, at int, r *sequence) { setAll(t, at, r.types) }},
	maskName: {axes: []axis{batchAxis, allAxis}, write: func(_ *layout, t *tensor.Tensor, at int, r *sequence) {
		for i := range r.ids {
			if r.hidden == 0 || i < len(r.ids)-r.hidden {
				t.SetInt64(at+i, 1)
			}
		}
	}},
	"position_ids": {axes: perToken, write: func(l *layout, t *tensor.Tensor, at int, r *sequence) {
		for i := range r.ids {
			t.SetInt64(at+i, int64(l.first+r.past.length()+i))
		}
	}},
	"words_mask": {axes: perToken, words: true, write: func(_ *layout, t *tensor.Tensor, at int, r *sequence) { setAll(t, at, r.words) }},
	"text_lengths": {axes: []axis{batchAxis, onceAxis}, words: true, write: func(_ *layout, t *tensor.Tensor, at int, r *sequence) {
		t.SetInt64(at, int64(r.count))
	}},
	"span_idx": {axes: []axis{batchAxis, spanAxis, endsAxis}, words: true, write: func(l *layout, t *tensor.Tensor, at int, r *sequence) {
		for i := range r.count * l.width {
			first := i / l.width
			t.SetInt64(at+2*i, int64(first))
			t.SetInt64(at+2*i+1, int64(first+i%l.width))
		}
	}},
	"span_mask": {axes: []axis{batchAxis, spanAxis}, words: true, write: func(l *layout, t *tensor.Tensor, at int, r *sequence) {
		for i := range r.count * l.width {
			if i/l.width+i%l.width < r.count {
				t.SetInt64(at+i, 1)
			}
		}
	}},
}

// headFillers are the inputs of heads by name.
var headFillers = map[string]filler{pickedInput: {axes: []axis{batchAxis, picksAxis},
	write: func(_ *layout, t *tensor.Tensor, at int, r *sequence) {
		for i, token := range r.picked() {
			t.SetInt64(at+i, int64(token))
		}
	}}}

func init() {
	for name, p := range poolers {
		of := func(r *sequence) (from, to int) { return p.tokens(len(r.ids), min(r.skip, len(r.ids))) }
		headFillers[tokensInput(name)] = filler{axes: []axis{batchAxis, endsAxis},
			write: func(_ *layout, t *tensor.Tensor, at int, r *sequence) {
				from, to := of(r)
				t.SetInt64(at, int64(from))
				t.SetInt64(at+1, int64(to))
			}}
		headFillers[scaleInput(name)] = filler{axes: []axis{batchAxis, onceAxis},
			write: func(_ *layout, t *tensor.Tensor, at int, r *sequence) { t.SetFloat64(at, p.scale(of(r))) }}
	}
}

// fillerOf returns the filler of an input of a program.
func fillerOf(name string) (fill filler, ok bool) {
	if fill, ok = fillers[name]; !ok {
		fill, ok = headFillers[name]
	}
	return fill, ok
}

// width returns the number of elements that each text has in an input of a head; 0 for an input of tokens or words.
func (f filler) width(n sizes) int {
	switch last := f.axes[len(f.axes)-1]; last {
	case onceAxis, endsAxis, picksAxis:
		return n[last]
	}
	return 0
}

func setAll(t *tensor.Tensor, at int, values []int64) {
	if t.DType() == tensor.I64 {
		copy(tensor.Of[int64](t)[at:], values)
		return
	}
	for i, v := range values {
		t.SetInt64(at+i, v)
	}
}

// isPast reports whether an input is the memory of a decoder. It is empty but for a prefix.
func isPast(name string) bool { return strings.HasPrefix(name, "past_") }

// extras are the inputs that are not sequences of tokens: flags of decoders, and positions in their memory.
var extras = map[string]func(t *tensor.Tensor, past int){
	"use_cache_branch": func(t *tensor.Tensor, past int) { // else a merged decoder does not read its memory
		for i := range t.Len() {
			t.SetInt64(i, int64(min(past, 1)))
		}
	},
	"cache_position": func(t *tensor.Tensor, past int) {
		for i := range t.Len() {
			t.SetInt64(i, int64(past+i))
		}
	},
}

// Tensors makes the inputs of a model from a padded batch, for programs that run the model themselves. inputs and dims are those of
// rlxc.Model.Inputs and Dims. It fails with ErrNotText if the model takes an input that is not made of text.
func Tensors(model string, inputs []rlxc.ValueInfo, dims []string, b *tokenizer.Batch) (rlxc.Tensors, error) {
	l, err := layoutOf(model, inputs, dims, 0, 0)
	if err != nil {
		return nil, err
	}
	return l.make(sizes{batchAxis: b.Sequences, lengthAxis: b.Length, allAxis: b.Length}, func(name string, fill filler, t *tensor.Tensor) {
		if name == idsName {
			setAll(t, 0, b.InputIDs) // with the tokenizer's padding
			return
		}
		for i, e := range b.Encodings {
			fill.write(l, t, i*b.Length+b.Start[i], &sequence{ids: e.InputIDs, types: e.TokenTypeIDs})
		}
	})
}

// fixed replaces the names of sizes by numbers.
func fixed(inputs []rlxc.ValueInfo, names []string, dims map[string]int) (_ []rlxc.ValueInfo, free []string) {
	for _, v := range inputs {
		for i, name := range v.Shape {
			if n, ok := dims[name]; ok {
				v.Shape[i] = strconv.Itoa(n)
			}
		}
	}
	for _, name := range names {
		if _, ok := dims[name]; !ok {
			free = append(free, name)
		}
	}
	return inputs, free
}

// layoutOf reads the inputs of a model, whose free sizes have these names. width is how many words a span has at most, of a model that
// labels words; else 0.
func layoutOf(model string, inputs []rlxc.ValueInfo, dims []string, first, width int) (*layout, error) {
	l := &layout{inputs: inputs, names: dims, first: first, width: width, dims: map[string]axis{},
		fixed: sizes{onceAxis: 1, endsAxis: 2}}
	tokens := false
	remembers := slices.ContainsFunc(inputs, func(v rlxc.ValueInfo) bool { return isPast(v.Name) })
	for _, v := range l.inputs {
		_, extra := extras[v.Name]
		fill, ok := fillers[v.Name]
		switch {
		case ok && (width > 0 || !fill.words):
			tokens = tokens || v.Name == idsName
			if len(v.Shape) != len(fill.axes) {
				return nil, fmt.Errorf("%s: input %q is of shape %v: want %d axes", model, v.Name, v.Shape, len(fill.axes))
			}
			if !v.DType.IsInt() && !v.DType.IsFloat() && v.DType != tensor.Bool {
				return nil, fmt.Errorf("%s: input %q is of type %s: a tokenizer returns integers", model, v.Name, v.DType)
			}
			for i, a := range fill.axes {
				if a == allAxis && !remembers {
					a = lengthAxis
				}
				if err := l.axis(v.Shape[i], a); err != nil {
					return nil, fmt.Errorf("%s: input %q: %w", model, v.Name, err)
				}
			}
		case ok:
			return nil, kindError{fmt.Errorf("%s takes an input %q, as GLiNER models do, but has no %s next to it", model, v.Name,
				glinerFile), ErrNotText}
		case isPast(v.Name), extra:
		default:
			return nil, kindError{fmt.Errorf("%s takes an input %q, which is not made of text: supported are %s, past_key_values and %s",
				model, v.Name,
				strings.Join(sortedKeys(fillers), ", "), strings.Join(sortedKeys(extras), ", ")), ErrNotText}
		}
	}
	if !tokens {
		return nil, kindError{fmt.Errorf("%s takes no input_ids: it is not a text model", model), ErrNotText}
	}
	for _, name := range l.names { // the rest is of the memory
		if _, ok := l.dims[name]; !ok {
			l.dims[name] = pastAxis
		}
	}
	return l, nil
}

// axis notes what a size of an input stands for. An expression, such as a past length and the sequence's together, follows from others.
func (l *layout) axis(text string, is axis) error {
	if n, err := strconv.Atoi(text); err == nil {
		if l.fixed[is] != 0 && l.fixed[is] != n {
			return fmt.Errorf("sizes %d and %d contradict each other", l.fixed[is], n)
		}
		l.fixed[is] = n
		return nil
	}
	text = unquoted(text)
	if known, ok := l.dims[text]; (!ok || known == allAxis) && slices.Contains(l.names, text) {
		l.dims[text] = is
	}
	return nil
}

// take makes inputs those of the layout, and of its symbols those that these inputs have.
func (l *layout) take(inputs []rlxc.ValueInfo) {
	symbols := map[string]bool{}
	for _, v := range inputs {
		for _, size := range v.Shape {
			if d, err := ir.ParseDim(size); err == nil {
				d.Symbols(symbols)
			}
		}
	}
	l.inputs, l.dims = inputs, maps.Clone(l.dims)
	maps.DeleteFunc(l.dims, func(name string, _ axis) bool { return !symbols[name] })
}

// unquoted returns the name of a size. A name that is not an identifier is quoted.
func unquoted(size string) string {
	if name, err := strconv.Unquote(size); err == nil {
		return name
	}
	return size
}

// sizes are the numbers for the model's symbols, where each token may be a word, for sequences without a prefix.
func (l *layout) sizes(sequences, length int) map[string]int {
	return l.sizesOf(extent{tokens: length}, sequences)
}

// sizesOf is sizes for sequences of an extent.
func (l *layout) sizesOf(e extent, sequences int) map[string]int {
	n := e.sizes(sequences)
	n[spanAxis] = e.tokens * l.width
	return l.named(n)
}

// named are sizes by the names that the model has for them.
func (l *layout) named(n sizes) map[string]int {
	out := map[string]int{}
	for name, a := range l.dims {
		out[name] = n[a]
	}
	return out
}

// tensors makes the inputs of a batch: sequences × length, short ones padded at their ends. All sequences have prefixes of one length.
func (l *layout) tensors(sequences []*sequence, count, length int) (rlxc.Tensors, error) {
	past := sequences[0].past.length()
	n := extent{past: past, tokens: length, picks: len(sequences[0].picks)}.sizes(count)
	for _, r := range sequences {
		n[spanAxis] = max(n[spanAxis], r.count*l.width)
	}
	in, err := l.make(n, func(name string, fill filler, t *tensor.Tensor) {
		padding := int64(0)
		switch {
		case name == idsName:
			padding = l.pad
		case name == maskName && past > 0:
			// Padding follows the tokens, and no token sees what follows it. GroupQueryAttention takes the number of ones for the position
			// after the last token, so that a padded row with fewer ones would begin inside of its prefix.
			padding = 1
		}
		for i := 0; padding != 0 && i < t.Len(); i++ {
			t.SetInt64(i, padding)
		}
		for i := range count {
			fill.write(l, t, i*(t.Len()/count), sequences[min(i, len(sequences)-1)]) // a fixed batch is filled up with the last sequence
		}
	})
	if err == nil && past > 0 {
		l.writePast(in, sequences)
	}
	return in, err
}

// make makes inputs; write writes those of tokens and words.
func (l *layout) make(n sizes, write func(name string, fill filler, t *tensor.Tensor)) (rlxc.Tensors, error) {
	in := rlxc.Tensors{}
	named := l.named(n)
	for _, v := range l.inputs {
		if fill, ok := fillerOf(v.Name); ok {
			var shape []int
			for _, a := range fill.axes {
				shape = append(shape, n[a])
			}
			t := tensor.New(v.DType, shape...)
			write(v.Name, fill, t)
			in[v.Name] = t
			continue
		}
		shape := make([]int, len(v.Shape))
		for i, text := range v.Shape {
			n, err := strconv.Atoi(text)
			known := false
			if err != nil {
				n, known = named[unquoted(text)]
			}
			if err != nil && !known {
				return nil, fmt.Errorf("input %q has the size %q, which no other input has", v.Name, text)
			}
			shape[i] = n
		}
		t := tensor.New(v.DType, shape...)
		if fill := extras[v.Name]; fill != nil {
			fill(t, n[pastAxis])
		}
		in[v.Name] = t
	}
	return in, nil
}
