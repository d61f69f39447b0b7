package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/tokenizer"
)

// A Question is a question about a context.
type Question struct {
	Question, Context string
}

// IsEmpty reports whether the question or its context has nothing but white space. Answer fails for such a question.
func (q Question) IsEmpty() bool {
	return strings.TrimSpace(q.Question) == "" || strings.TrimSpace(q.Context) == ""
}

// An Answer is a span of a context. The empty Answer means that the context has none.
type Answer struct {
	Text      string  `json:"answer"`
	Score     float64 `json:"score"`
	Start     int     `json:"start"` // offset in the context, in bytes
	End       int     `json:"end"`
	CharStart int     `json:"char_start"` // offset in the context, in characters
	CharEnd   int     `json:"char_end"`
}

// AnswerOptions are the options of Answer.
type AnswerOptions struct {
	TopK      int  // number of answers for each question; 0 for 1
	NoAnswer  bool // whether the empty Answer may be an answer
	MaxTokens int  // most tokens of an answer; 0 for 15
	Length    int  // tokens of a sequence; 0 for what the model takes, at most 384
	Stride    int  // tokens that the windows over a long context have in common; 0 for half a sequence, at most 128
}

// Answer finds answers in contexts, the most likely first. It scores whole words as transformers' QuestionAnsweringPipeline does: by the
// product of the probabilities of the first and the last token. Long contexts are split into windows. Answer fails as Embed does, and if
// a question or its context is empty.
func (m *Model) Answer(ctx context.Context, questions []Question, o AnswerOptions) ([][]Answer, error) {
	if m.heads.start.form != tokenNumbers || m.heads.end.form != tokenNumbers {
		return nil, m.lacks("answer")
	}
	length := cmp.Or(m.MaxLength, 384)
	if o.Length > length {
		return nil, invalidf("the requested length is %d tokens, but the model takes at most %d", o.Length, length)
	}
	length = cmp.Or(o.Length, min(length, 384))
	stride, most := cmp.Or(o.Stride, min(length/2, 128)), min(cmp.Or(o.MaxTokens, 15), length)
	top := min(cmp.Or(o.TopK, 1), most*length)
	if stride < 0 || stride > length/2 {
		return nil, invalidf("invalid stride %d: want 0 to half of the window, which has %d tokens", stride, length)
	}
	inputs := make([]tokenizer.Input, len(questions))
	for i, q := range questions {
		if q.IsEmpty() {
			return nil, invalidf("question %d or its context is empty", i)
		}
		inputs[i] = tokenizer.Pair(q.Question, q.Context)
	}
	encodings, err := m.encode(ctx, inputs, length, nil, tokenizer.Spans(), tokenizer.Truncate(tokenizer.OnlySecond, tokenizer.Right),
		tokenizer.Windows(stride))
	if errors.Is(err, tokenizer.ErrRoom) {
		return nil, fmt.Errorf("pipeline: a question is too long for windows of %d tokens: %w", length, err)
	}
	if err != nil {
		return nil, err
	}
	_, first, hasFirst := m.tok.Role("cls")
	windows := make([]windowAnswers, len(encodings))
	sequences, ask := make([]*sequence, len(encodings)), memory.Asker(ctx)
	for i, e := range encodings {
		sequences[i] = &sequence{ids: e.InputIDs, types: e.TokenTypeIDs, take: func(b *batch, at int) error {
			starts, _, _, err := b.tokenVectors(m.heads.start, at)
			if err != nil {
				return err
			}
			ends, _, _, err := b.tokenVectors(m.heads.end, at)
			if err != nil {
				return err
			}
			n := len(e.InputIDs)
			if len(starts) < n || len(ends) < n {
				return fmt.Errorf("pipeline: the model returns %d and %d logits for %d tokens", len(starts), len(ends), n)
			}
			candidate := make([]bool, n)
			for t := range n {
				candidate[t] = e.Sequences[t] == 1 || hasFirst && e.InputIDs[t] == first
			}
			windows[i] = spans(starts[:n], ends[:n], candidate, most, 2*top+10)
			return ask(int64(len(windows[i].spans)) * answerBytes)
		}}
	}
	if err := m.run(ctx, sequences, m.heads.start.name, m.heads.end.name); err != nil {
		return nil, err
	}
	out := make([][]Answer, len(questions))
	none := slices.Repeat([]float64{math.Inf(1)}, len(questions))
	seen := make([]map[string]int, len(questions))
	for i := range seen {
		seen[i] = map[string]int{}
	}
	for i, e := range encodings {
		text := questions[e.Input].Context
		none[e.Input] = min(none[e.Input], windows[i].none)
		for _, s := range windows[i].spans {
			out[e.Input] = addAnswer(out[e.Input], seen[e.Input], text, e, s)
		}
	}
	for i := range out {
		if o.NoAnswer {
			out[i] = append(out[i], Answer{Score: none[i]})
		}
		slices.SortStableFunc(out[i], func(a, b Answer) int { return cmp.Compare(b.Score, a.Score) })
		out[i] = out[i][:min(top, len(out[i]))]
	}
	return out, nil
}

// answerBytes estimates the bytes of a candidate span and of the Answer for it.
const answerBytes = 256

// windowAnswers are what one window has to say.
type windowAnswers struct {
	spans []span
	none  float64 // the score of no answer
}

// A span is tokens from first to last.
type span struct {
	first, last int
	score       float64
}

// spans returns the k best spans of candidates with at most that many tokens.
func spans(starts, ends []float32, candidate []bool, most, k int) windowAnswers {
	distribution := func(logits []float32) []float64 {
		p := wide(logits)
		for t := range p {
			if !candidate[t] {
				p[t] = -10000
			}
		}
		softmax(p)
		return p
	}
	start, end := distribution(starts), distribution(ends)
	w := windowAnswers{none: start[0] * end[0]}
	start[0], end[0] = 0, 0
	for i := range start {
		if !candidate[i] {
			continue
		}
		for j := i; j < min(i+most, len(end)); j++ {
			if score := start[i] * end[j]; candidate[j] && score > 0 {
				w.spans = append(w.spans, span{i, j, score})
			}
		}
	}
	slices.SortStableFunc(w.spans, func(a, b span) int { return cmp.Compare(b.score, a.score) })
	w.spans = slices.Clone(w.spans[:min(k, len(w.spans))])
	return w
}

// addAnswer adds the whole words of a span to the answers; the same text counts once, with the sum of the scores. seen has the index of
// each text among the answers.
func addAnswer(answers []Answer, seen map[string]int, text string, e tokenizer.Encoding, s span) []Answer {
	bytes, chars := wholeWord(e, s.first)
	endBytes, endChars := wholeWord(e, s.last)
	a := Answer{Score: s.score, Start: bytes.Start, End: endBytes.End, CharStart: chars.Start, CharEnd: endChars.End}
	if a.Start <= a.End && a.End <= len(text) {
		a.Text = text[a.Start:a.End]
	}
	lower := strings.ToLower(a.Text) // as Python does, which folds other letters than strings.EqualFold
	if i, ok := seen[lower]; ok {
		answers[i].Score += a.Score
		return answers
	}
	seen[lower] = len(answers)
	return append(answers, a)
}

// wholeWord returns the bytes and the characters of the word around token t.
func wholeWord(e tokenizer.Encoding, t int) (bytes, chars tokenizer.Span) {
	first, last := t, t
	if e.Words[t] >= 0 {
		for first > 0 && e.Sequences[first-1] == e.Sequences[t] && e.Words[first-1] == e.Words[t] {
			first--
		}
		for last+1 < len(e.Words) && e.Sequences[last+1] == e.Sequences[t] && e.Words[last+1] == e.Words[t] {
			last++
		}
	}
	return tokenizer.Span{Start: e.Offsets[first].Start, End: e.Offsets[last].End},
		tokenizer.Span{Start: e.CharOffsets[first].Start, End: e.CharOffsets[last].End}
}
