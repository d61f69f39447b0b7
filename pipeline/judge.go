package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/tokenizer"
)

// A judge is how a decoder that was trained as a reranker is asked: it reads a prompt with the query and the document, and the logits of
// two words at the last position are its answer. The score is the logit of yes less that of no.
//
//	segments  … "<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}" …
//	score     logits[last, id(yes)] - logits[last, id(no)]
//
// Each segment is tokenized alone, without special tokens, as the models were trained. If the sequence is too long, tokens are left out at
// the end of the segment with {document}.
type judge struct {
	model       string // the published models of this form, for findings
	segments    []string
	instruct    string // {instruct} in a segment, if there is an instruction; it contains {instruction}
	instruction string // the default; empty for none
	yes, no     string // tokens
	function    Function
}

// judges are the forms by model_type in config.json. The texts are those of the models' publishers.
var judges = map[string]*judge{
	"qwen3": {
		model: "Qwen3-Reranker",
		segments: []string{"<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct " +
			"provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n",
			"{instruct}<Query>: {query}\n<Document>: {document}",
			"<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"},
		instruct:    "<Instruct>: {instruction}\n",
		instruction: "Given a web search query, retrieve relevant passages that answer the query",
		yes:         "yes", no: "no", function: Sigmoid, // which is the softmax of the two
	},
	"qwen2": {
		model: "mxbai-rerank-v2",
		segments: []string{"<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n" +
			"<|im_start|>user\n", "{instruct}query: {query}", "\n", "document: {document}", "\n",
			"You are a search relevance expert who evaluates how well documents match search queries. For each query-document pair, " +
				"carefully analyze the semantic relationship between them, then provide your binary relevance judgment (0 for not " +
				"relevant, 1 for relevant).\nRelevance:", "<|im_end|>\n<|im_start|>assistant\n"},
		instruct: "instruction: {instruction}\n",
		yes:      "1", no: "0", function: NoFunction,
	},
}

// findJudge returns how a decoder is asked that returns the logits of words and has no files of another task, and makes reranking the task
// of the description. It returns nil for other models. The outputs decide: the same architecture without a head embeds texts.
func (d *Description) findJudge(heads outputs) *judge {
	j := judges[d.config.ModelType]
	decodes := slices.ContainsFunc(d.config.Architectures, func(a string) bool { return strings.HasSuffix(a, "ForCausalLM") })
	if j == nil || !decodes || d.Task != Embedding || len(d.modules) > 0 || heads.logits.form != tokenVectors {
		return nil
	}
	d.Task = Reranking
	i := slices.IndexFunc(d.Found, func(f Finding) bool { return f.What == "task" })
	d.Found[i] = Finding{"task", fmt.Sprintf("%s, in the form of %s: the logit of %q less that of %q", Reranking, j.model, j.yes, j.no),
		"config.json"}
	return j
}

// findAnswers finds the ids of the words that a judge answers with: yes, no.
func (m *Model) findAnswers() error {
	for _, token := range []string{m.judge.yes, m.judge.no} {
		id, ok := m.tok.ID(token)
		if !ok {
			return fmt.Errorf("%s has no token %q, which rerankers of the form of %s answer with", m.Tokenizer, token, m.judge.model)
		}
		m.head.answers = append(m.head.answers, id)
	}
	return nil
}

const documentMark = "{document}"

// parts are the token ids of the segments before and after the document's segment, and the text of that segment up to the document.
func (m *Model) parts(ctx context.Context, query, instruction string) (before, after []int64, lead string, err error) {
	j := m.judge
	instruct := ""
	if instruction != "" {
		instruct = strings.ReplaceAll(j.instruct, "{instruction}", instruction)
	}
	to := &before
	for _, segment := range j.segments {
		text, own := strings.CutSuffix(segment, documentMark)
		// The query is put in last, so that braces in it stay text.
		first, rest, found := strings.Cut(strings.Replace(text, "{instruct}", instruct, 1), "{query}")
		if found {
			first += query + rest
		}
		if own {
			lead, to = first, &after
			continue
		}
		e, err := m.tok.Encode(tokenizer.Text(first), 0, tokenizer.Bare(), tokenizer.Ask(memory.Asker(ctx)))
		if err != nil {
			return nil, nil, "", err
		}
		*to = append(*to, e.InputIDs...)
	}
	return before, after, lead, nil
}

// judged returns the score of each pair before its function: the logit of yes less that of no.
func (m *Model) judged(ctx context.Context, pairs []Pair, o RerankOptions) ([][]float64, error) {
	instruction := o.Instruction
	if instruction == "" {
		instruction = m.judge.instruction
	}
	out := make([][]float64, len(pairs))
	ask, together := memory.Asker(ctx), &round{m: m}
	defer together.close()
	for next := 0; next < len(pairs); {
		from, to := next, next+1 // the pairs of one query
		for to < len(pairs) && pairs[to].First == pairs[from].First {
			to++
		}
		before, after, lead, err := m.parts(ctx, pairs[from].First, instruction)
		if err != nil {
			return nil, err
		}
		inputs, length, around := make([]tokenizer.Input, to-from), 0, len(before)+len(after)
		for i, p := range pairs[from:to] {
			if p.Second == nil {
				return nil, invalidf("a reranker compares two texts, but text %d has no second one", from+i)
			}
			if err := ask(int64(len(lead) + len(*p.Second))); err != nil {
				return nil, err
			}
			inputs[i] = tokenizer.Text(lead + *p.Second)
		}
		if m.MaxLength > 0 {
			if length = m.MaxLength - around; length < 1 {
				return nil, fmt.Errorf("pipeline: the query and the prompt have %d tokens, of a maximum length of %d: %w", around,
					m.MaxLength, tokenizer.ErrRoom)
			}
		}
		cut := o.Truncated
		if cut != nil {
			cut = func(i, tokens, read int) {
				if tokens > 0 {
					tokens += around
				}
				o.Truncated(from+i, tokens, read+around)
			}
		}
		options := append([]tokenizer.EncodeOption{tokenizer.Bare(), tokenizer.Truncate(tokenizer.LongestFirst, tokenizer.Right)},
			o.Encode...)
		encodings, err := m.encode(ctx, inputs, length, cut, options...)
		if err != nil {
			return nil, err
		}
		sequences := make([]*sequence, 0, len(encodings))
		for i, e := range encodings {
			if err := ask(8 * int64(around)); err != nil {
				return nil, err
			}
			ids := slices.Concat(before, e.InputIDs, after)
			sequences = append(sequences, &sequence{ids: ids, types: make([]int64, len(ids)), take: func(b *batch, at int) (err error) {
				out[from+i], err = m.verdict(b, at)
				return err
			}})
		}
		if err := together.add(ctx, sequences); err != nil {
			return nil, err
		}
		next = to
	}
	return out, together.run(ctx)
}

// verdict is the logit of yes less that of no at the last position of a sequence.
func (m *Model) verdict(b *batch, at int) ([]float64, error) {
	logits, err := b.textVector(m.heads.judged, at)
	if err != nil {
		return nil, err
	}
	return []float64{float64(logits[0]) - float64(logits[1])}, nil
}

// A round is the sequences of a call that run together, and the prefixes that some of them share.
type round struct {
	m         *Model
	sequences []*sequence
	prefixes  []*sequence
	bytes     int64 // size of the keys and values of the prefixes
}

// roundBytes bounds the prefixes of a round, if it has more than one: pairs of many queries run in several rounds.
const roundBytes = 64 << 20

// add adds the sequences of one query. The longest beginning that all of them have becomes a prefix, and their last token always runs. They
// run without a prefix if the model takes none, if only one sequence would have it, or if there is no memory for it.
func (r *round) add(ctx context.Context, sequences []*sequence) error {
	l := &r.m.engine.layout
	shared := commonPrefix(sequences)
	bytes := l.pastBytes(shared)
	if r.bytes > 0 && r.bytes+bytes > roundBytes {
		if err := r.run(ctx); err != nil {
			return err
		}
	}
	if len(sequences) > 1 && bytes > 0 && r.m.engine.keep(bytes) {
		p, first := &prefix{tokens: shared}, sequences[0]
		r.bytes += bytes
		r.prefixes = append(r.prefixes, &sequence{ids: first.ids[:shared], types: first.types[:shared],
			take: func(b *batch, at int) error { return p.read(l, b, at) }})
		for _, s := range sequences {
			s.past, s.ids, s.types = p, s.ids[shared:], s.types[shared:]
		}
	}
	r.sequences = append(r.sequences, sequences...)
	return nil
}

// run runs the prefixes and then the other sequences, and leaves an empty round. The texts of the call are its sequences: of the prefixes,
// Usage counts the tokens alone.
func (r *round) run(ctx context.Context) error {
	defer r.close()
	var prefixes Usage
	var present []string // keys and values
	for _, in := range r.m.engine.layout.past {
		present = append(present, in.Output)
	}
	if err := r.m.run(WithUsage(ctx, &prefixes), r.prefixes, present...); err != nil {
		return err
	}
	if u, ok := ctx.Value(usageKey{}).(*Usage); ok {
		u.Tokens, u.Queued = u.Tokens+prefixes.Tokens, u.Queued+prefixes.Queued
	}
	return r.m.run(ctx, r.sequences, r.m.heads.judged.name)
}

// close forgets the sequences and gives the memory of the prefixes back.
func (r *round) close() {
	r.m.engine.drop(r.bytes)
	*r = round{m: r.m}
}

// commonPrefix returns the number of tokens with which all sequences begin, at most all but the last token of each.
func commonPrefix(sequences []*sequence) int {
	first := sequences[0].ids
	n := len(first) - 1
	for _, s := range sequences {
		n = min(n, len(s.ids)-1)
		for i := range max(n, 0) {
			if s.ids[i] != first[i] {
				n = i
				break
			}
		}
	}
	return max(n, 0)
}
