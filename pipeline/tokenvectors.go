package pipeline

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/tokenizer"
)

// A SparseVector has weights for some words of the vocabulary, by ascending id.
type SparseVector struct {
	Indices []int32   `json:"indices"`
	Values  []float32 `json:"values"`
}

// Dot returns the dot product of two sparse vectors.
func (v SparseVector) Dot(w SparseVector) float64 {
	sum := 0.0
	for i, j := 0, 0; i < len(v.Indices) && j < len(w.Indices); {
		switch a, b := v.Indices[i], w.Indices[j]; {
		case a < b:
			i++
		case b < a:
			j++
		default:
			sum += float64(v.Values[i]) * float64(w.Values[j])
			i, j = i+1, j+1
		}
	}
	return sum
}

// Word returns the token at an index of a sparse vector, as the vocabulary spells it.
func (m *Model) Word(index int32) string {
	token, _ := m.tok.Token(int64(index))
	return token
}

// EmbedSparse returns a sparse vector for each text. It requires a SPLADE model, which has logits over the vocabulary for each token, or
// a model that weighs its tokens, such as BGE-M3. It fails as Embed does.
func (m *Model) EmbedSparse(ctx context.Context, texts []string, o EmbedOptions) ([]SparseVector, error) {
	prompt, err := m.Prompt(o)
	if err != nil {
		return nil, err
	}
	from := m.heads.sparse
	weigh := func(b *batch, at int, e tokenizer.Encoding) (SparseVector, error) { return m.weighTokens(b, at, e) }
	if !m.heads.sparse.form.perToken() {
		if err := m.pickled("sparse_linear.pt", "sparse_vecs"); err != nil {
			return nil, err
		}
		if from = m.heads.weighed; from.form != textVectors {
			return nil, m.lacks("embed sparsely")
		}
		weigh = func(b *batch, at int, _ tokenizer.Encoding) (SparseVector, error) {
			return m.head.sparse.weigh(b, at, from)
		}
	}
	encodings, err := m.sequences(ctx, texts, prompt, m.MaxLength, o.Truncated, o.Encode...)
	if err != nil {
		return nil, err
	}
	out := make([]SparseVector, len(texts))
	sequences, ask := make([]*sequence, len(encodings)), memory.Asker(ctx)
	for i, e := range encodings {
		sequences[i] = &sequence{ids: e.InputIDs, types: e.TokenTypeIDs, take: func(b *batch, at int) (err error) {
			if out[i], err = weigh(b, at, e); err != nil {
				return err
			}
			return ask(8 * int64(cap(out[i].Indices)))
		}}
	}
	if err := m.run(ctx, sequences, from.name); err != nil {
		return nil, err
	}
	return out, nil
}

// weigh makes a sparse vector of what the head returns for a text: log(1+max(x,0)), the largest or the sum over the tokens (T. Formal,
// B. Piwowarski, S. Clinchant: SPLADE, 2021).
func (s *splade) weigh(b *batch, at int, words output) (v SparseVector, err error) {
	data, err := b.textVector(words, at)
	for k, x := range data {
		if x <= 0 || err != nil {
			continue
		}
		w := float64(x)
		for range s.logs() {
			if !s.sum { // else the head has done so
				w = math.Log1p(w)
			}
		}
		v.Indices, v.Values = append(v.Indices, int32(k)), append(v.Values, float32(w))
	}
	return v, err
}

// weighTokens makes a sparse vector of a sequence's tokens and the weight of each: the largest of a word's, special tokens
// left out.
func (m *Model) weighTokens(b *batch, at int, e tokenizer.Encoding) (v SparseVector, err error) {
	weights, tokens, size, err := b.tokenVectors(m.heads.sparse, at)
	if err != nil {
		return v, err
	}
	if size != 1 || tokens != len(e.InputIDs) {
		return v, fmt.Errorf("pipeline: output %q has %d numbers for each of %d tokens: want one for each of %d", m.heads.sparse.name, size,
			tokens, len(e.InputIDs))
	}
	special := m.specialIDs()
	byID := map[int64]float32{}
	for i, id := range e.InputIDs {
		if w := weights[i]; w > byID[id] && !slices.Contains(special, id) {
			byID[id] = w
		}
	}
	for id := range byID {
		v.Indices = append(v.Indices, int32(id))
	}
	slices.Sort(v.Indices)
	for _, id := range v.Indices {
		v.Values = append(v.Values, byID[int64(id)])
	}
	return v, nil
}

// specialIDs are the ids of tokens that stand for no text.
func (m *Model) specialIDs() []int64 {
	var ids []int64
	for _, role := range []string{"pad", "unk", "cls", "sep", "mask", "bos", "eos"} {
		if _, id, ok := m.tok.Role(role); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// EmbedTokens returns a vector for each token of each text, to be compared by MaxSim. It requires a ColBERT model, which treats queries
// and documents differently (Options.Side), or a model with such a head, such as BGE-M3. It fails as Embed does.
func (m *Model) EmbedTokens(ctx context.Context, texts []string, o EmbedOptions) ([][][]float32, error) {
	out, ask := make([][][]float32, len(texts)), memory.Asker(ctx)
	err := m.embedTokens(ctx, texts, o, func(i int, vectors [][]float32) error {
		out[i] = vectors
		bytes := 24 * len(vectors)
		for _, v := range vectors {
			bytes += 4 * cap(v)
		}
		return ask(int64(bytes))
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// embedTokens calls put with the vectors of each text, by several goroutines at once.
func (m *Model) embedTokens(ctx context.Context, texts []string, o EmbedOptions, put func(i int, vectors [][]float32) error) error {
	prompt, err := m.Prompt(o)
	if err != nil {
		return err
	}
	from := m.heads.vectors
	keep := func(int64) bool { return true }
	if from.form != tokenVectors {
		if err := m.pickled("colbert_linear.pt", "colbert_vecs"); err != nil {
			return err
		}
		if from = m.heads.layered; from.form != tokenVectors {
			from = m.heads.hidden
		}
		if from.form != tokenVectors {
			return m.lacks("embed tokens")
		}
		for _, module := range m.modules {
			if module.kind == "MultiVectorMask" {
				keep = m.masked(module, o.Side)
			}
		}
	}
	encodings, err := m.sequences(ctx, texts, prompt, m.tokenVectorsLength(o.Side), o.Truncated, o.Encode...)
	if err != nil {
		return err
	}
	sequences := make([]*sequence, len(encodings))
	for i, e := range encodings {
		r := &sequence{ids: e.InputIDs, types: e.TokenTypeIDs}
		own := len(r.ids)
		if x := m.sbert.Expansion; x != nil && o.Side == Query {
			if err := m.expand(r, x); err != nil {
				return err
			}
		}
		r.take = func(b *batch, at int) error {
			data, tokens, size, err := b.tokenVectors(from, at)
			if err != nil {
				return err
			}
			var vectors [][]float32
			first := len(r.ids) - tokens // what the model leaves out
			for t := range tokens {
				if first+t < own && !keep(r.ids[first+t]) {
					continue
				}
				vectors = append(vectors, slices.Clone(data[t*size:(t+1)*size]))
			}
			return put(i, vectors)
		}
		sequences[i] = r
	}
	return m.run(ctx, sequences, from.name)
}

// tokenVectorsLength returns the maximum length of a sequence of EmbedTokens, which ColBERT models may have for each side; 0 for any.
func (m *Model) tokenVectorsLength(side Side) int {
	switch x := m.sbert.Expansion; {
	case side == Query && x != nil && x.Strategy == "min":
		return max(x.Length, m.sbert.QueryLength, m.MaxLength)
	case side == Query && x != nil:
		return x.Length
	case side == Query && m.sbert.QueryLength > 0:
		return m.sbert.QueryLength
	case side == Document && m.sbert.DocumentLength > 0:
		return m.sbert.DocumentLength
	}
	return m.MaxLength
}

// masked is which tokens a MultiVectorMask keeps.
func (m *Model) masked(mask module, side Side) func(id int64) bool {
	task := string(side)
	if side == Neither {
		task = string(Document)
	}
	skip := map[int64]bool{}
	if slices.Contains(mask.skipTasks, task) {
		_, unknown, _ := m.tok.Role("unk")
		for _, word := range mask.skip {
			if id, ok := m.tok.ID(word); ok && id != unknown {
				skip[id] = true
			}
		}
	}
	return func(id int64) bool {
		return !skip[id] && (len(mask.keep) == 0 || side == Query || slices.Contains(mask.keep, id))
	}
}

// expand lengthens a query with mask tokens, whose vectors count (O. Khattab, M. Zaharia: ColBERT, 2020).
func (m *Model) expand(r *sequence, x *expansion) error {
	var id int64
	ok := false
	if x.Token != "" {
		id, ok = m.tok.ID(x.Token)
	} else {
		for _, role := range []string{"mask", "eos"} {
			if _, id, ok = m.tok.Role(role); ok {
				break
			}
		}
	}
	if !ok {
		return fmt.Errorf("pipeline: the tokenizer lacks the token %q, with which queries are extended", x.Token)
	}
	more := max(0, x.Length-len(r.ids))
	r.ids = append(slices.Clip(r.ids), slices.Repeat([]int64{id}, more)...)
	r.types = append(slices.Clip(r.types), make([]int64, more)...)
	if !x.Attend {
		r.hidden = more
	}
	return nil
}

// MaxSim returns the similarity of a document to a query by the vectors of their tokens. It is the sum, over the tokens of the query, of
// the largest dot product with a token of the document.
func MaxSim(query, document [][]float32) float64 {
	sum := 0.0
	for _, q := range query {
		best := math.Inf(-1)
		for _, d := range document {
			best = max(best, dot(q, d))
		}
		if len(document) > 0 {
			sum += best
		}
	}
	return sum
}

// maxSims are those of documents by a query.
func (m *Model) maxSims(ctx context.Context, query string, documents []string, o RerankOptions) ([]float64, error) {
	if o.Function != "" && o.Function != NoFunction {
		return nil, invalidf("the scores of a model with a vector for each token are sums of products, not logits: want the function %q",
			NoFunction)
	}
	of := EmbedOptions{Side: Query, Encode: o.Encode}
	vectors, err := m.EmbedTokens(ctx, []string{query}, of)
	if err != nil {
		return nil, err
	}
	scores := make([]float64, len(documents))
	of.Side, of.Truncated = Document, o.Truncated
	return scores, m.embedTokens(ctx, documents, of, func(i int, v [][]float32) error {
		scores[i] = MaxSim(vectors[0], v)
		return nil
	})
}

// TopWords returns the k words of a sparse vector with the largest weights.
func (m *Model) TopWords(v SparseVector, k int) []Score {
	order := make([]int, len(v.Indices))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return v.Values[order[a]] > v.Values[order[b]] })
	var out []Score
	for _, i := range order[:min(k, len(order))] {
		out = append(out, Score{Label: m.Word(v.Indices[i]), Score: float64(v.Values[i])})
	}
	return out
}
