package pipeline

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/fixtures"
	"github.com/rlxc/rlxc/tensor"
	"github.com/rlxc/rlxc/tokenizer"
)

// What the models of testdata answer is compared with what sentence-transformers and transformers answered, which
// models/scripts/pipelines.py recorded.

// within is how far numbers may be from the recorded ones.
const within = 1e-5

// openModel opens a model of testdata.
func openModel(t *testing.T, name string, o Options) *Model {
	t.Helper()
	m, err := Open(t.Context(), filepath.Join("testdata", name), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// texts are what the models were asked.
func texts(t *testing.T) []string {
	var list []string
	data, err := os.ReadFile(filepath.Join("testdata", "texts.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &list))
	require.Len(t, list, 200)
	return list
}

// pairs are the pairs that models of two texts were asked.
func pairs(list []string) []Pair {
	out := make([]Pair, len(list))
	for i := range list {
		out[i] = Pair{list[7*i%200], &list[i]}
	}
	return out
}

// recorded reads the arrays of a model's answers.
func recorded(t *testing.T, name string) map[string]*tensor.Tensor {
	return readArrays(t, filepath.Join(name, "answers.npz"))
}

// readArrays reads an .npz of testdata.
func readArrays(t *testing.T, name string) map[string]*tensor.Tensor {
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	list, err := tensor.ReadNPZ(bytes.NewReader(data), int64(len(data)), 1<<30)
	require.NoError(t, err)
	out := map[string]*tensor.Tensor{}
	for _, a := range list {
		out[a.Name] = a.Tensor
	}
	return out
}

// answers reads a model's answers that are not arrays.
func answers(t *testing.T, name string, to any) {
	f, err := os.Open(filepath.Join("testdata", name, "answers.json.gz"))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(z).Decode(to))
}

// sameVectors compares vectors with the sequences of a matrix.
func sameVectors(t *testing.T, want *tensor.Tensor, got [][]float32, of []string) {
	t.Helper()
	require.Len(t, got, want.Shape()[0])
	size := want.Shape()[1]
	for i, v := range got {
		require.Len(t, v, size)
		for k, x := range v {
			w := want.Float64(i*size + k)
			if math.IsInf(w, -1) && math.IsInf(float64(x), -1) {
				continue
			}
			require.InDelta(t, w, x, within*max(1, math.Abs(w)), "text %d %q, number %d", i, of[i], k)
		}
	}
}

// TestAllMiniLM makes vectors with the real all-MiniLM-L6-v2 of the fixtures; models/scripts/minilm.py recorded what
// sentence-transformers makes of the same texts.
func TestAllMiniLM(t *testing.T) {
	normalize := true
	m, err := Open(t.Context(), fixtures.Dir(t, "minilm"), Options{Tokenizer: fixtures.Dir(t, "tokenizer"), Pooling: "mean",
		Normalize: &normalize, MaxLength: 256})
	require.NoError(t, err)
	defer m.Close()
	list, cut := texts(t), 0
	for i, text := range list[180:] {
		list[180+i] = strings.Join([]string{text, text, text}, " ")
	}
	got, err := m.Embed(t.Context(), list, EmbedOptions{Truncated: func(int, int, int) { cut++ }})
	require.NoError(t, err)
	require.Positive(t, cut, "texts beyond the length are among them")
	sameVectors(t, readArrays(t, "all-MiniLM-L6-v2.npz")["embeddings"], got, list)
}

// TestLowercase holds that do_lower_case of sentence_bert_config.json is followed by a model that knows capitals.
func TestLowercase(t *testing.T) {
	m := openModel(t, "pooled", Options{})
	want, err := m.Embed(t.Context(), []string{"hello world, straße ärger i̇", "HELLO"}, EmbedOptions{})
	require.NoError(t, err)
	dir := copyModel(t, "pooled")
	config := map[string]any{"max_seq_length": m.MaxLength, "do_lower_case": true}
	data, err := json.Marshal(config)
	require.NoError(t, err)
	write(t, filepath.Join(dir, "sentence_bert_config.json"), string(data))
	lower, err := Open(t.Context(), dir, Options{})
	require.NoError(t, err)
	defer lower.Close()
	got, err := lower.Embed(t.Context(), []string{"Hello WORLD, Straße ÄRGER İ", "HELLO"}, EmbedOptions{})
	require.NoError(t, err)
	require.InDeltaSlice(t, want[0], got[0], 1e-6)
	require.Greater(t, float64(want[1][0]-got[1][0])*float64(want[1][0]-got[1][0]), 1e-8, "without it capitals count")
}

func TestEmbed(t *testing.T) {
	list := texts(t)
	custom := "classify this: "
	for _, test := range []struct {
		model, array string
		o            EmbedOptions
	}{
		{"minilm", "embeddings", EmbedOptions{}},
		{"minilm", "truncated", EmbedOptions{Dimensions: 16}},
		{"dense", "embeddings", EmbedOptions{}},
		{"prompts", "embeddings", EmbedOptions{}},
		{"prompts", "query", EmbedOptions{Side: Query}},
		{"prompts", "query", EmbedOptions{PromptName: "query"}},
		{"prompts", "document", EmbedOptions{Side: Document}},
		{"prompts", "custom", EmbedOptions{Prompt: &custom}},
		{"pooled", "embeddings", EmbedOptions{}},
		{"pooled", "query", EmbedOptions{Side: Query}},
		{"decoder", "embeddings", EmbedOptions{}},
		{"decoder", "query", EmbedOptions{Side: Query}},
		{"decoder", "document", EmbedOptions{Side: Document}},
		{"m3", "dense", EmbedOptions{}},
	} {
		t.Run(test.model+" "+test.array, func(t *testing.T) {
			m := openModel(t, test.model, Options{})
			got, err := m.Embed(t.Context(), list, test.o)
			require.NoError(t, err)
			sameVectors(t, recorded(t, test.model)[test.array], got, list)
		})
	}
}

func TestPrecisions(t *testing.T) {
	want := recorded(t, "minilm")
	sequences := want["embeddings"]
	vectors := make([][]float32, sequences.Shape()[0])
	for i := range vectors {
		vectors[i] = tensor.Of[float32](sequences)[i*32 : (i+1)*32]
	}
	for _, precision := range []Precision{Int8, Uint8, Binary, Ubinary} {
		got, err := Quantize(vectors, precision, nil)
		require.NoError(t, err)
		require.Equal(t, want[string(precision)].String(), got.String())
		require.Equal(t, want[string(precision)].Bytes(), got.Bytes(), precision)
	}
	half, err := Quantize(vectors, Float16, nil)
	require.NoError(t, err)
	require.InDelta(t, vectors[7][3], half.Float64(7*32+3), 1e-3)
	_, err = Quantize(vectors, "int4", nil)
	require.ErrorContains(t, err, `invalid precision "int4": want one of binary, float16, float32`)

	m := openModel(t, "minilm", Options{})
	require.Equal(t, Cosine, m.Similarity())
	scores := want["similarity"]
	for i := range 20 {
		hits := TopK(vectors[i], vectors[20:60], 40, Cosine)
		require.Len(t, hits, 40)
		for k, h := range hits {
			require.InDelta(t, scores.Float64(i*40+h.Index), h.Score, within)
			require.True(t, k == 0 || h.Score <= hits[k-1].Score)
		}
		require.Equal(t, hits[:5], TopK(vectors[i], vectors[20:60], 5, Cosine))
	}
}

func TestEmbedSparse(t *testing.T) {
	list := texts(t)
	for model, array := range map[string]string{"splade": "embeddings", "m3": "sparse"} {
		t.Run(model, func(t *testing.T) {
			m := openModel(t, model, Options{})
			_, err := m.EmbedSparse(t.Context(), list, EmbedOptions{PromptName: "none"})
			require.ErrorContains(t, err, `no prompt "none"`)
			got, err := m.EmbedSparse(t.Context(), list, EmbedOptions{})
			require.NoError(t, err)
			want := recorded(t, model)[array]
			size := want.Shape()[1]
			full := make([][]float32, len(got))
			for i, v := range got {
				full[i] = make([]float32, size)
				for k, index := range v.Indices {
					full[i][index] = v.Values[k]
				}
			}
			sameVectors(t, want, full, list)
		})
	}
}

func TestEmbedTokens(t *testing.T) {
	list := texts(t)
	same := func(t *testing.T, vectors, sequences *tensor.Tensor, got [][][]float32) {
		t.Helper()
		at, size := 0, vectors.Shape()[1]
		for i, v := range got {
			require.Len(t, v, int(sequences.Int64(i)), "text %d %q", i, list[i])
			for _, token := range v {
				for k, x := range token {
					require.InDelta(t, vectors.Float64(at*size+k), x, within, "text %d %q", i, list[i])
				}
				at++
			}
		}
	}
	m := openModel(t, "colbert", Options{})
	want := recorded(t, "colbert")
	queries, err := m.EmbedTokens(t.Context(), list, EmbedOptions{Side: Query})
	require.NoError(t, err)
	same(t, want["queries"], want["query_rows"], queries)
	documents, err := m.EmbedTokens(t.Context(), list, EmbedOptions{Side: Document})
	require.NoError(t, err)
	same(t, want["documents"], want["document_rows"], documents)
	for i, q := range queries[12:32] {
		for k, d := range documents[12:60] {
			require.InDelta(t, want["scores"].Float64(i*48+k), MaxSim(q, d), 1e-4) // sums of 16 numbers near 1
		}
	}

	m3 := openModel(t, "m3", Options{})
	got, err := m3.EmbedTokens(t.Context(), list, EmbedOptions{})
	require.NoError(t, err)
	want = recorded(t, "m3")
	same(t, want["vectors"], want["vector_rows"], got)
}

// A labelled score is written as ["label", 0.5].
type labelled struct {
	Label string
	Score float64
}

func (l *labelled) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&l.Label, &l.Score})
}

func sameScores(t *testing.T, want [][]labelled, got [][]Score) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.Len(t, got[i], len(want[i]))
		for k, w := range want[i] {
			require.Equal(t, w.Label, got[i][k].Label, "sequence %d", i)
			require.InDelta(t, w.Score, got[i][k].Score, within, "sequence %d", i)
		}
	}
}

func TestClassify(t *testing.T) {
	list := texts(t)
	for _, model := range []string{"classify", "multilabel", "regression"} {
		t.Run(model, func(t *testing.T) {
			var want struct{ Texts, Pairs [][]labelled }
			answers(t, model, &want)
			m := openModel(t, model, Options{})
			got, err := m.Classify(t.Context(), Texts(list...), ClassifyOptions{})
			require.NoError(t, err)
			sameScores(t, want.Texts, got)
			// of which transformers makes one text
			both := slices.DeleteFunc(pairs(list), func(p Pair) bool { return p.First == "" || *p.Second == "" })
			got, err = m.Classify(t.Context(), both, ClassifyOptions{})
			require.NoError(t, err)
			sameScores(t, want.Pairs, got)
			got, err = m.Classify(t.Context(), Texts(list[:1]...), ClassifyOptions{TopK: 1})
			require.NoError(t, err)
			require.Len(t, got[0], 1)
		})
	}
}

func TestZeroShot(t *testing.T) {
	var want struct {
		Labels, Texts []string
		Single, Multi [][]labelled
	}
	answers(t, "nli", &want)
	m := openModel(t, "nli", Options{})
	got, err := m.ZeroShot(t.Context(), want.Texts, want.Labels, ZeroShotOptions{})
	require.NoError(t, err)
	sameScores(t, want.Single, got)
	got, err = m.ZeroShot(t.Context(), want.Texts, want.Labels, ZeroShotOptions{MultiLabel: true, Template: "It is about {}."})
	require.NoError(t, err)
	sameScores(t, want.Multi, got)

	entails := m.config.labels[m.entailment()]
	names := make([]string, len(m.config.labels)) // as a model without names of labels has them
	named := ""
	for i, label := range m.config.labels {
		if names[i] = fmt.Sprintf("LABEL_%d", i); label == entails {
			named = names[i]
		}
	}
	m.config.labels = names
	_, err = m.ZeroShot(t.Context(), want.Texts, want.Labels, ZeroShotOptions{})
	require.ErrorContains(t, err, "--entailment")
	_, err = m.ZeroShot(t.Context(), want.Texts, want.Labels, ZeroShotOptions{Entailment: "LABEL_9"})
	require.ErrorContains(t, err, `no label "LABEL_9"`)
	got, err = m.ZeroShot(t.Context(), want.Texts, want.Labels, ZeroShotOptions{Entailment: named})
	require.NoError(t, err)
	sameScores(t, want.Single, got)
}

func TestRerank(t *testing.T) {
	list := texts(t)
	for _, model := range []string{"rerank", "rerank-raw"} {
		t.Run(model, func(t *testing.T) {
			m := openModel(t, model, Options{})
			scores, err := m.ScorePairs(t.Context(), pairs(list), RerankOptions{})
			require.NoError(t, err)
			want := recorded(t, model)["scores"]
			for i, s := range scores {
				require.InDelta(t, want.Float64(i), s, within, "pair %d", i)
			}
			var ranked struct{ Rank [][2]float64 }
			answers(t, model, &ranked)
			got, err := m.Rerank(t.Context(), list[12], list[20:60], RerankOptions{})
			require.NoError(t, err)
			require.Len(t, got, len(ranked.Rank))
			for i, w := range ranked.Rank {
				require.Equal(t, int(w[0]), got[i].Index)
				require.InDelta(t, w[1], got[i].Score, within)
				require.Equal(t, list[20+got[i].Index], got[i].Document)
			}
		})
	}
	m := openModel(t, "rerank-two", Options{})
	want := recorded(t, "rerank-two")["scores"]
	got, err := m.logits(t.Context(), pairs(list), "rerank", nil)
	require.NoError(t, err)
	shares, err := m.ScorePairs(t.Context(), pairs(list), RerankOptions{})
	require.NoError(t, err)
	for i, v := range got {
		require.InDelta(t, want.Float64(2*i), v[0], within)
		require.InDelta(t, want.Float64(2*i+1), v[1], within)
		require.InDelta(t, sigmoid(v[1]-v[0]), shares[i], within)
	}
}

// A found entity is written as ["PER", 0.5, 3, 9].
type foundEntity struct {
	Label      string
	Score      float64
	Start, End int
}

func (e *foundEntity) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&e.Label, &e.Score, &e.Start, &e.End})
}

func TestTag(t *testing.T) {
	list := texts(t)
	for _, model := range []string{"ner", "bilou", "ner-pieces"} {
		want := map[Aggregation][][]foundEntity{}
		answers(t, model, &want)
		m := openModel(t, model, Options{})
		for _, how := range Aggregations() {
			t.Run(model+" "+string(how), func(t *testing.T) {
				stride := 16
				if how == "none" {
					stride = -1
				}
				got, err := m.Tag(t.Context(), list, TagOptions{Aggregation: how, Stride: stride})
				require.NoError(t, err)
				count := 0
				for i, text := range list {
					want[how][i] = slices.Compact(want[how][i]) // of windows, transformers has an empty first entity twice
					require.Len(t, got[i], len(want[how][i]), "text %d %q: %v, want %v", i, text, got[i], want[how][i])
					for k, w := range want[how][i] {
						g := got[i][k]
						if model == "bilou" && how == "none" { // the reference has other names for two labels
							g.Label = map[string]string{"L": "I", "U": "B"}[g.Label[:1]] + g.Label[1:]
							if g.Label[0] == '-' {
								g.Label = got[i][k].Label
							}
						}
						require.Equal(t, w.Label, g.Label, "text %d %q", i, text)
						require.Equal(t, [2]int{w.Start, w.End}, [2]int{g.CharStart, g.CharEnd}, "text %d %q", i, text)
						require.InDelta(t, w.Score, g.Score, within)
						require.Equal(t, string([]rune(text)[w.Start:w.End]), g.Text)
						require.Equal(t, g.Text, text[g.Start:g.End])
						count++
					}
				}
				require.Greater(t, count, 100)
			})
		}
	}
}

// A found answer is written as ["text", 0.5, 3, 9].
type foundAnswer struct {
	Text       string
	Score      float64
	Start, End int
}

func (a *foundAnswer) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&a.Text, &a.Score, &a.Start, &a.End})
}

func TestAnswer(t *testing.T) {
	var want struct {
		Asked            [][2]string
		Top1, Top3, None [][]foundAnswer
	}
	answers(t, "qa", &want)
	require.Len(t, want.Asked, 200)
	questions := make([]Question, len(want.Asked))
	for i, q := range want.Asked {
		questions[i] = Question{q[0], q[1]}
	}
	m := openModel(t, "qa", Options{})
	for _, test := range []struct {
		name string
		want [][]foundAnswer
		o    AnswerOptions
	}{
		{"top 1", want.Top1, AnswerOptions{Stride: 16}},
		{"top 3", want.Top3, AnswerOptions{Stride: 16, TopK: 3}},
		{"no answer", want.None, AnswerOptions{Stride: 16, NoAnswer: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := m.Answer(t.Context(), questions, test.o)
			require.NoError(t, err)
			for i, w := range test.want {
				if !test.o.NoAnswer { // transformers fills up with spans that cannot be
					w = slices.DeleteFunc(w, func(a foundAnswer) bool { return a.Score == 0 })
				}
				require.Len(t, got[i], len(w), "question %d %v: %v, want %v", i, want.Asked[i], got[i], w)
				for k := range w {
					require.Equal(t, w[k].Text, got[i][k].Text, "question %d %v", i, want.Asked[i])
					require.Equal(t, [2]int{w[k].Start, w[k].End}, [2]int{got[i][k].CharStart, got[i][k].CharEnd})
					require.InDelta(t, w[k].Score, got[i][k].Score, within)
				}
			}
		})
	}
}

// TestNoAnswer: that a long context has no answer is as likely as in that of its windows where it is least likely.
func TestNoAnswer(t *testing.T) {
	m := openModel(t, "qa", Options{})
	none := func(text string) float64 {
		list, err := m.Answer(t.Context(), []Question{{"who?", text}}, AnswerOptions{Stride: 16, NoAnswer: true, TopK: 1 << 20})
		require.NoError(t, err)
		i := slices.IndexFunc(list[0], func(a Answer) bool { return a.Text == "" })
		return list[0][i].Score
	}
	var words []string // of one token
	for i := 0; len(words) < 2000; i++ {
		word := strings.Fields("the quick brown fox was founded by a dog in apple and over it lazy")[i*i%15]
		e, err := m.encode(t.Context(), []tokenizer.Input{tokenizer.Text(word)}, 0, nil)
		require.NoError(t, err)
		if len(e[0].InputIDs) == 3 {
			words = append(words, word)
		}
	}
	text := strings.Join(words, " ")
	windows, err := m.encode(t.Context(), []tokenizer.Input{tokenizer.Pair("who?", text)}, min(m.MaxLength, 384), nil, tokenizer.Spans(),
		tokenizer.Truncate(tokenizer.OnlySecond, tokenizer.Right), tokenizer.Windows(16))
	require.NoError(t, err)
	var each []float64
	for _, e := range windows {
		first := slices.Index(e.Sequences, 1)
		last := len(e.Sequences) - 1
		for e.Sequences[last] != 1 {
			last--
		}
		each = append(each, none(text[e.Offsets[first].Start:e.Offsets[last].End]))
	}
	require.Greater(t, len(each), 3)
	require.NotEqual(t, slices.Min(each), each[len(each)-1])
	require.NotEqual(t, slices.Min(each), each[0])
	require.InDelta(t, slices.Min(each), none(text), within)
}

// TestFill compares words with those of transformers, with padding and without.
func TestFill(t *testing.T) {
	for _, unpad := range []bool{false, true} {
		t.Run(fmt.Sprintf("unpad=%v", unpad), func(t *testing.T) {
			testFill(t, openModel(t, "splade", Options{Compile: rlxc.CompileOptions{Unpad: unpad}}))
		})
	}
}

func testFill(t *testing.T, m *Model) {
	var want struct {
		Masks  []string
		Filled [][]filledWord
	}
	answers(t, "splade", &want)
	require.Equal(t, "[MASK]", m.Mask())
	got, err := m.Fill(t.Context(), want.Masks, FillOptions{})
	require.NoError(t, err)
	for i, w := range want.Filled {
		require.Len(t, got[i], 1)
		for k, f := range w {
			g := got[i][0][k]
			require.Equal(t, f, filledWord{g.ID, g.Token, f.Score, g.Text}, "text %d %q", i, want.Masks[i])
			require.InDelta(t, f.Score, g.Score, within)
		}
	}
	// Words that have no token stand for their first one; a special token is a word, which a text is shown without.
	got, err = m.Fill(t.Context(), want.Masks[:1], FillOptions{Targets: []string{"cat sits", "[PAD]"}})
	require.NoError(t, err)
	text := map[string]string{}
	for _, f := range got[0][0] {
		text[f.Token] = f.Text
	}
	require.Contains(t, text, "[PAD]")
	require.Contains(t, text["c"], " c ")
	require.NotContains(t, text["[PAD]"], "[")
}

// A filledWord is written as [12, "word", 0.5, "the text"].
type filledWord struct {
	ID    int64
	Token string
	Score float64
	Text  string
}

func (f *filledWord) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&f.ID, &f.Token, &f.Score, &f.Text})
}

// TestDefaultPrompt holds that texts without a separate prompt get the one that the options name, and others keep theirs.
func TestDefaultPrompt(t *testing.T) {
	list, custom := texts(t), "classify this: "
	want := recorded(t, "prompts")
	for _, test := range []struct {
		array string
		o     Options
		of    EmbedOptions
	}{
		{"custom", Options{DefaultPrompt: &custom}, EmbedOptions{}},
		{"query", Options{DefaultPromptName: "query"}, EmbedOptions{}},
		{"document", Options{DefaultPromptName: "query"}, EmbedOptions{Side: Document}},
	} {
		got, err := openModel(t, "prompts", test.o).Embed(t.Context(), list, test.of)
		require.NoError(t, err)
		sameVectors(t, want[test.array], got, list)
	}
	_, err := Open(t.Context(), filepath.Join("testdata", "prompts"), Options{DefaultPromptName: "none"})
	require.ErrorContains(t, err, `has no prompt "none"`)
	openModel(t, "rerank", Options{DefaultPromptName: "none"}) // has no use for one
}
