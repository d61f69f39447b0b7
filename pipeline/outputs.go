package pipeline

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// A form is what the axes of an output count. It follows from the symbols that the output's shape shares with the inputs, when the model
// is opened. It never follows from the rank of a result: without padding, [tokens, labels] and [batch, labels] have the same rank, and
// token i of a batch belongs to another text than text i.
type form uint8

const (
	otherForm    form = iota // for example [batch, tokens, tokens], a number for each pair of tokens; or sizes that depend on data
	textNumbers              // [batch]
	textVectors              // [batch, size]
	tokenNumbers             // [batch, tokens]
	tokenVectors             // [batch, tokens, size]
	wordScores               // scores of GLiNER models: see candidates
)

// forms lists what the axes of each form count. If a model has numbers instead of symbols, several forms may fit. Then the first one is
// taken, unless the output's name requires another.
var forms = [...]struct {
	axes []axis
	text string
}{
	textNumbers:  {[]axis{batchAxis}, "[batch]"},
	textVectors:  {[]axis{batchAxis, sizeAxis}, "[batch, size]"},
	tokenNumbers: {[]axis{batchAxis, lengthAxis}, "[batch, tokens]"},
	tokenVectors: {[]axis{batchAxis, lengthAxis, sizeAxis}, "[batch, tokens, size]"},
}

// perText reports whether each text has its own number or vector.
func (f form) perText() bool { return f == textNumbers || f == textVectors }

// perToken reports whether each token has its own number or vector.
func (f form) perToken() bool { return f == tokenNumbers || f == tokenVectors }

// form returns the form of an output. Forms that its name suggests take precedence.
func (l *layout) form(v rlxc.ValueInfo, suggested []form) form {
	var all []form
	for f, x := range forms {
		fits := len(x.axes) > 0 && len(x.axes) == len(v.Shape)
		for i := range v.Shape {
			fits = fits && l.counts(v.Shape[i], x.axes[i])
		}
		if fits {
			all = append(all, form(f))
		}
	}
	if i := slices.IndexFunc(all, func(f form) bool { return slices.Contains(suggested, f) }); i >= 0 {
		return all[i]
	}
	if len(all) > 0 {
		return all[0]
	}
	return otherForm
}

// counts reports whether a size of an output is the number of texts, or that of tokens, or neither. It evaluates the size's expression
// for several numbers of texts and tokens. Some models leave out the vectors of first tokens: [batch, tokens - 1, size].
func (l *layout) counts(size string, a axis) bool {
	d, err := ir.ParseDim(size)
	if err != nil {
		return false
	}
	value := func(batch, length int) (n int) {
		if err == nil {
			n, err = d.Eval(l.sizes(batch, length))
		}
		return n
	}
	const batch, more, length, longer = 3, 5, 7, 11
	n, ofMore, ofLonger := value(batch, length), value(more, length), value(batch, longer)
	constant := n == ofMore && n == ofLonger
	switch {
	case err != nil: // a symbol that the inputs do not have
		return false
	case a == batchAxis && l.fixed[batchAxis] > 0:
		return constant && n == l.fixed[batchAxis]
	case a == batchAxis:
		return n == batch && ofMore == more && ofLonger == batch
	case a == lengthAxis && l.fixed[lengthAxis] > 0:
		return constant && n <= l.fixed[lengthAxis]
	case a == lengthAxis:
		return n <= length && ofMore == n && ofLonger == n+longer-length
	}
	return constant
}

// all reports whether a size of an output that counts tokens counts all of them.
func (l *layout) all(size string) bool {
	const length = 7
	d, err := ir.ParseDim(size)
	if err != nil {
		return false
	}
	n, err := d.Eval(l.sizes(1, length))
	return err == nil && n == cmp.Or(l.fixed[lengthAxis], length)
}

// An output is one of a model's outputs. Its name is "" if the model has none for the purpose.
type output struct {
	name string
	form form
}

// outputs are a model's outputs by what they hold.
type outputs struct {
	hidden  output // a vector for each token
	layered output // a vector for each token, that the model's head makes of hidden
	pooled  output // a vector for each text, made by the model itself or by its head
	logits  output // scores of labels or of words; any form
	start   output // a number for each token
	end     output
	sparse  output // weights; of any form
	vectors output // a vector for each token, for MaxSim
	spans   output // scores of words, by labels that the caller names
	weighed output // a number for each text and word, that the model's head makes of logits
	filled  output // logits of the masks of each text, [batch, masks·words], that the model's head takes of logits
	judged  output // logits of the last token of each text, that the model's head takes of logits
}

// poolerName is an output that is a vector of a text or an image. Of BERT it was trained for something else, and is not taken.
const poolerName = "pooler_output"

// outputNames are the names that exporters give to outputs, in order of preference.
var outputNames = []struct {
	to    func(*outputs) *output
	forms []form // forms of outputs with these names; nil for any
	other bool   // an output of another form is noted too: its readers refuse it, and nothing else reads it
	names []string
}{
	{func(o *outputs) *output { return &o.hidden }, []form{tokenVectors}, false, []string{"token_embeddings", "last_hidden_state",
		"hidden_states", "encoder_output"}},
	{func(o *outputs) *output { return &o.pooled }, []form{textVectors}, false, []string{"sentence_embedding", "text_embeds", "embeddings",
		"dense_vecs"}},
	{func(o *outputs) *output { return &o.logits }, nil, true, []string{"logits", "scores", "prediction_scores"}},
	{func(o *outputs) *output { return &o.start }, []form{tokenNumbers}, false, []string{"start_logits"}},
	{func(o *outputs) *output { return &o.end }, []form{tokenNumbers}, false, []string{"end_logits"}},
	{func(o *outputs) *output { return &o.sparse }, []form{tokenNumbers, tokenVectors}, true, []string{"sparse_vecs",
		"sparse_embedding", "sparse_weights"}},
	{func(o *outputs) *output { return &o.vectors }, []form{tokenVectors}, false, []string{"colbert_vecs", "multi_vector", "contextual"}},
}

// findOutputs identifies the model's outputs by name, and if no name is known, by form. The layout is that of the model's own symbols.
func (d *Description) findOutputs(model *rlxc.Model, l *layout) (outputs, error) {
	var o outputs
	infos := textTower.of(model).outputs
	used := map[string]bool{}
	for _, kind := range outputNames {
		for _, name := range kind.names {
			i := slices.IndexFunc(infos, func(v rlxc.ValueInfo) bool { return v.Name == name && v.DType.IsFloat() })
			if i < 0 {
				continue
			}
			if f := l.form(infos[i], kind.forms); kind.other || slices.Contains(kind.forms, f) {
				*kind.to(&o) = output{name, f}
				used[name] = true
				break
			}
		}
	}
	for _, v := range infos {
		if used[v.Name] || !v.DType.IsFloat() || isPresent(v) {
			continue
		}
		none, found := output{}, output{v.Name, l.form(v, nil)}
		switch f := found.form; {
		case f == tokenVectors && o.hidden == none && o.logits == none:
			o.hidden = found
		case f.perText() && o.logits == none && o.start == none && (d.Task == Classifying || d.Task == Reranking):
			o.logits = found
		case f == textVectors && o.pooled == none && v.Name != poolerName:
			o.pooled = found
		}
	}
	if o.pooled.name == "" && d.config.isSigLIP() && slices.Contains(namesOf(infos), poolerName) {
		o.pooled = output{poolerName, textVectors}
	}
	if d.gliner != nil {
		o = outputs{spans: output{o.logits.name, wordScores}}
	}
	if o == (outputs{}) && len(infos) > 0 && infos[0].Name != poolerName {
		return o, fmt.Errorf("%s returns %s: want vectors, logits or start and end logits", model.Name(), shapesOf(infos))
	}
	return o, nil
}

// newHead returns the head of a model with these outputs. It sets the outputs that the head makes. judges says that the model is a decoder
// that reranks. newHead returns nil if the files name no modules and the model has no logits of words, and if its outputs are not of
// tokens.
func (d *Description) newHead(model *rlxc.Model, l *layout, o *outputs, judges bool) *head {
	infos := textTower.of(model).outputs
	names := namesOf(infos)
	ofTokens := func(x output) bool {
		return x.form == tokenVectors && l.all(infos[slices.Index(names, x.name)].Shape[1])
	}
	name := func(name string) output {
		for slices.Contains(names, name) {
			name += "_"
		}
		return output{name: name, form: textVectors}
	}
	h := &head{}
	switch {
	case !ofTokens(o.logits):
	case judges:
		o.judged = name("last_logits")
		return &head{hidden: o.logits.name, judges: true, pooled: o.judged.name}
	case d.Task != Tagging:
		o.filled = name("mask_logits")
		if h.words, h.filled = o.logits.name, o.filled.name; !o.sparse.form.perToken() {
			o.weighed = name("word_weights")
			h.sparse, h.weights = &splade{}, o.weighed.name
		}
	}
	for i := range d.modules {
		switch m := &d.modules[i]; {
		case m.kind == "Pooling":
			h.pooling = &m.pooling
		case m.layer != nil && m.onTokens:
			h.tokens = append(h.tokens, m.layer)
		case m.layer != nil:
			h.texts = append(h.texts, m.layer)
		case m.kind == "SpladePooling" && h.sparse != nil:
			h.sparse = &m.splade
		}
	}
	if n := len(h.texts); d.normalizes() {
		h.texts = h.texts[:n-1] // embed does that
	}
	vectors := ofTokens(o.hidden)
	if vectors && len(h.tokens) > 0 {
		o.layered = output{name("token_vectors").name, tokenVectors}
		h.vectors = o.layered.name
	}
	if vectors && h.pooling != nil {
		o.pooled = name("sentence_embedding")
		h.pooled = o.pooled.name
	}
	if h.vectors != "" || h.pooled != "" {
		h.hidden = o.hidden.name
	}
	return h.orNone()
}

func namesOf(infos []rlxc.ValueInfo) []string {
	names := make([]string, len(infos))
	for i, v := range infos {
		names[i] = v.Name
	}
	return names
}

// shapesOf lists names with shapes: "logits [batch, 3]".
func shapesOf(infos []rlxc.ValueInfo) string {
	all := make([]string, len(infos))
	for i, v := range infos {
		all[i] = fmt.Sprintf("%s [%s]", v.Name, strings.Join(v.Shape, ", "))
	}
	return strings.Join(all, ", ")
}

// labelsTokens reports whether the logits may be those of labels for each token.
func (m *Model) labelsTokens() bool {
	return m.heads.logits.form == tokenVectors && m.Task != Filling && m.Task != Sparse && m.judge == nil
}

// weighsWords reports whether the logits may be those of all words of the vocabulary for each token.
func (m *Model) weighsWords() bool { return m.heads.logits.form == tokenVectors && m.Task != Tagging }

// lacks returns the error for a task whose output the model lacks.
func (m *Model) lacks(what string) error {
	return kindError{fmt.Errorf("pipeline: %s cannot %s: it returns %s, and was trained to %s", m.Description.Model, what,
		shapesOf(slices.DeleteFunc(m.model.Outputs(), isPresent)), m.Task), ErrTask}
}

// isPresent reports whether an output is the memory of a decoder.
func isPresent(v rlxc.ValueInfo) bool { return strings.HasPrefix(v.Name, "present") }

// pickled is an error if a head that the model has no output for is beside it as a file of PyTorch's.
func (m *Model) pickled(file, output string) error {
	if path := filepath.Join(m.Dir, file); m.Dir != "" && m.system.IsFile(path) {
		return kindError{fmt.Errorf("pipeline: %s stores this head as a pickle, which is a program and is never run, and %s lacks its "+
			"output: "+
			"export the model with the head as the output %q (docs/texts.md shows how)", path, m.Description.Model, output), ErrTask}
	}
	return nil
}

// textVector returns the numbers of sequence i in an output of a form per text, one for textNumbers. They are the session's.
func (b *batch) textVector(o output, i int) ([]float32, error) {
	t := b.out[o.name]
	if t.Rank() != len(forms[o.form].axes) || t.Shape()[0] != b.count {
		return nil, b.unexpected(o, t)
	}
	size := t.Len() / b.count
	data := b.floats(t, i*size, size)
	return data, notNaN(o.name, data)
}

// notNaN fails if an output has NaN for a text. What is made of it would hide that: comparisons with NaN are false, so that a label, a
// token or a word would be chosen or left out, and a similarity and a bit would be 0. Infinities order labels, and stay.
func notNaN(output string, data []float32) error {
	var a, b, c, d float32 // sums of zeros, or of NaN for what is not finite; four, because each waits for its last addition
	n := len(data) &^ 3
	for i := 0; i < n; i += 4 {
		x := data[i : i+4 : i+4]
		a, b, c, d = a+x[0]*0, b+x[1]*0, c+x[2]*0, d+x[3]*0
	}
	for _, x := range data[n:] {
		a += x * 0
	}
	if a+b+c+d == 0 {
		return nil
	}
	if i := slices.IndexFunc(data, func(x float32) bool { return x != x }); i >= 0 {
		return kindError{fmt.Errorf("pipeline: the model returned NaN as number %d of its output %q for a text", i, output), ErrNaN}
	}
	return nil
}

// tokenVectors returns the vectors of the tokens of sequence i in an output of a form per token, one after the other, without padding.
// size is 1 for tokenNumbers. They are the session's. If the model leaves out first tokens, tokens is less than the sequence has.
func (b *batch) tokenVectors(o output, i int) (data []float32, tokens, size int, err error) {
	t, rank := b.out[o.name], len(forms[o.form].axes)
	shape, from, lead := t.Shape(), 0, 2 // lead is how many axes count texts and tokens
	tokens = len(b.sequences[i].ids)
	switch {
	case b.starts != nil && t.Rank() == rank-1 && shape[0] == b.tokens(): // RunPacked returns [tokens, …] for [batch, tokens, …]
		from, lead = b.starts[i], 1
	case t.Rank() == rank && shape[0] == b.count && shape[1] <= b.length && shape[1] >= b.length-tokens:
		from, tokens = i*shape[1], shape[1]-(b.length-tokens)
	default:
		return nil, 0, 0, b.unexpected(o, t)
	}
	size = shape[lead:].Elements()
	data = b.floats(t, from*size, tokens*size)
	return data, tokens, size, notNaN(o.name, data)
}

// unexpected is the error of a result whose sizes contradict its form.
func (b *batch) unexpected(o output, t *tensor.Tensor) error {
	return fmt.Errorf("pipeline: output %q is %v: want %s of %d sequences of at most %d tokens", o.name, t, forms[o.form].text, b.count,
		b.length)
}
