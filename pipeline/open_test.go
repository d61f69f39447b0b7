package pipeline

import (
	"context"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	_ "github.com/rlxc/rlxc/backend/cuda"
	"github.com/rlxc/rlxc/hub"
	"github.com/rlxc/rlxc/internal/drivertest"
)

// copyModel copies a model of testdata, so that a test may spoil it.
func copyModel(t *testing.T, name string) string {
	dir := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))))
	return dir
}

func write(t *testing.T, file, text string) {
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o777))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
}

func TestDescribe(t *testing.T) {
	d, err := Describe("testdata/minilm", Options{})
	require.NoError(t, err)
	require.Equal(t, Embedding, d.Task)
	require.Equal(t, 48, d.MaxLength)
	require.Equal(t, []Finding{
		{"model", "onnx/model.onnx", "onnx/model.onnx"},
		{"architecture", "BertModel", "config.json"},
		{"similarity", "cosine", "config_sentence_transformers.json"},
		{"module", "pooling mean", "1_Pooling/config.json"},
		{"module", "normalize", "2_Normalize/config.json"},
		{"task", "embed", "modules.json"},
		{"tokenizer", "tokenizer.json", "tokenizer.json"},
		{"length", "48 tokens", "sentence_bert_config.json"},
	}, d.Found)
	for model, task := range map[string]Task{"splade": Sparse, "colbert": MultiVector, "classify": Classifying, "rerank": Reranking,
		"ner": Tagging, "qa": Answering, "decoder": Embedding, "regression": Classifying} {
		d, err := Describe(filepath.Join("testdata", model), Options{})
		require.NoError(t, err, model)
		require.Equal(t, task, d.Task, model)
	}
	d, err = Describe("testdata/minilm/onnx/model.onnx", Options{MaxLength: 20, Pooling: "cls"})
	require.NoError(t, err)
	require.Equal(t, "minilm", filepath.Base(d.Dir))
	require.Equal(t, 20, d.MaxLength)
	require.Contains(t, d.Found, Finding{"module", "pooling cls", "option"})
}

func TestVariants(t *testing.T) {
	files := []string{"model.onnx", "onnx/model.onnx", "onnx/model_fp16.onnx", "onnx/model_O2.onnx"}
	for variant, want := range map[string]string{"": "model.onnx", "fp16": "onnx/model_fp16.onnx", "model_O2": "onnx/model_O2.onnx",
		"onnx/model_O2.onnx": "onnx/model_O2.onnx"} {
		got, err := choose(files, variant, "")
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := choose(files, "int8", "")
	require.ErrorContains(t, err, `it has no variant "int8": choose one of model.onnx`)
	want := Files("fp16")([]string{"config.json", "README.md", "model.safetensors", "onnx/model.onnx", "onnx/model_fp16.onnx",
		"onnx/model_fp16.onnx_data", "1_Pooling/config.json", "2_Dense/model.safetensors", "2_Dense/pytorch_model.bin", "tokenizer.json",
		"trainer_state.json"})
	require.Equal(t, []string{"config.json", "onnx/model_fp16.onnx", "onnx/model_fp16.onnx_data", "1_Pooling/config.json",
		"2_Dense/model.safetensors", "tokenizer.json"}, want)
}

// Folders that contradict themselves are refused with the file and what is wrong.
func TestBadFolders(t *testing.T) {
	for _, test := range []struct {
		name, model, file, text, want string
	}{
		{"broken JSON", "minilm", "config.json", `{"architectures": [`, "config.json: unexpected end"},
		{"labels with gaps", "classify", "config.json", `{"id2label": {"0": "a", "7": "b"}}`, `one of them with the id "7": want 0 to 1`},
		{"no such pooling", "minilm", "1_Pooling/config.json", `{"pooling_mode": "median"}`,
			`invalid pooling "median": want one of cls`},
		{"module outside", "minilm", "modules.json", `[{"idx":0,"path":"../x","type":"a.Pooling"}]`, "is outside the folder"},
		{"unknown module", "minilm", "modules.json", `[{"idx":0,"path":"","type":"a.LSTM"}]`, `has the type "a.LSTM"; supported are Dense`},
		{"small vocabulary", "minilm", "config.json", `{"vocab_size": 10}`, "it is not this model's tokenizer"},
		{"length beyond positions", "minilm", "sentence_bert_config.json", `{"max_seq_length": 512}`, "the model has 64 positions"},
		{"dense without weights", "dense", "2_Dense/config.json", `{"in_features": 31, "out_features": 12, "bias": true}`,
			"the configuration requires [12 31]"},
		{"no safetensors", "dense", "2_Dense/model.safetensors", "x", "is not a safetensors file: it has 1 bytes"},
		{"no tokenizer", "minilm", "tokenizer.json", "{}", "tokenizer.json"},
		{"no model", "minilm", "onnx/model.onnx", "", "model.onnx"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := copyModel(t, test.model)
			write(t, filepath.Join(dir, test.file), test.text)
			_, err := Open(t.Context(), dir, Options{})
			require.ErrorContains(t, err, "pipeline: ")
			require.ErrorContains(t, err, test.want)
		})
	}
	_, err := Open(t.Context(), t.TempDir(), Options{})
	require.ErrorContains(t, err, "no .onnx file in it")
	_, err = Open(t.Context(), "./nothing here", Options{})
	require.ErrorContains(t, err, "is not a path")
	_, err = Open(t.Context(), "testdata/minilmm", Options{Hub: &hub.Client{Cache: t.TempDir(), Offline: true}})
	require.ErrorIs(t, err, hub.ErrOffline)
	require.ErrorContains(t, err, `"testdata/minilmm" is not a path`)
	require.NotContains(t, err.Error(), "rlxc pull", "a folder that is mistyped is not on the hub")
	_, err = Open(t.Context(), "acme/tiny", Options{Hub: &hub.Client{Cache: t.TempDir(), Offline: true}})
	require.ErrorIs(t, err, hub.ErrOffline)
	require.ErrorContains(t, err, "rlxc pull acme/tiny")

	dir := copyModel(t, "classify")
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	write(t, filepath.Join(dir, "config.json"), strings.Replace(string(config), `"0": "negative",`, "", 1))
	_, err = Open(t.Context(), dir, Options{})
	require.ErrorContains(t, err, "id2label has 2 labels")
	write(t, filepath.Join(dir, "config.json"), `{"architectures": ["BertForSequenceClassification"], "id2label": {"0": "a", "1": "b"}}`)
	m, err := Open(t.Context(), dir, Options{})
	require.NoError(t, err)
	defer m.Close()
	_, err = m.Classify(t.Context(), Texts("a"), ClassifyOptions{})
	require.ErrorContains(t, err, "the model returns 3 logits, but id2label in config.json has 2 labels")
}

// A task that the model has no output for says what the model was made for.
func TestWrongTask(t *testing.T) {
	m := openModel(t, "minilm", Options{})
	_, err := m.Classify(t.Context(), Texts("a"), ClassifyOptions{})
	require.ErrorContains(t, err, "cannot classify: it returns last_hidden_state [batch_size, sequence_length, 32], and was trained to "+
		"embed")
	_, err = m.Answer(t.Context(), []Question{{"a", "b"}}, AnswerOptions{})
	require.ErrorContains(t, err, "cannot answer")
	_, err = openModel(t, "nli", Options{}).ScorePairs(t.Context(), []Pair{{"a", new(string)}}, RerankOptions{})
	require.ErrorContains(t, err, "a reranker has one or two logits, but this model has 3: use Classify")
	_, err = m.Embed(t.Context(), []string{"a"}, EmbedOptions{PromptName: "passage"})
	require.ErrorContains(t, err, `no prompt "passage": it has document, query`)
	_, err = m.Embed(t.Context(), []string{"a"}, EmbedOptions{Dimensions: 33})
	require.ErrorContains(t, err, "33 dimensions are requested, but the vectors have 32")
	require.ErrorContains(t, m.EmbedInto(t.Context(), make([]float32, 31), []string{"a"}, EmbedOptions{}), "room for 31")
	into := make([]float32, 64)
	require.NoError(t, m.EmbedInto(t.Context(), into, []string{"a", "b"}, EmbedOptions{}))
	v, err := m.Embed(t.Context(), []string{"b"}, EmbedOptions{})
	require.NoError(t, err)
	require.InDeltaSlice(t, v[0], into[32:], 1e-6)
}

// TestPickledHeads holds that heads that are not outputs of the model are not passed over: hidden states would be wrong answers.
func TestPickledHeads(t *testing.T) {
	dir := copyModel(t, "minilm")
	for _, file := range []string{"sparse_linear.pt", "colbert_linear.pt"} {
		write(t, filepath.Join(dir, file), "PK")
	}
	m, err := Open(t.Context(), dir, Options{})
	require.NoError(t, err)
	defer m.Close()
	_, err = m.EmbedSparse(t.Context(), []string{"a"}, EmbedOptions{})
	require.ErrorIs(t, err, ErrTask)
	require.ErrorContains(t, err, `sparse_linear.pt stores this head as a pickle`)
	require.ErrorContains(t, err, `export the model with the head as the output "sparse_vecs"`)
	_, err = m.EmbedTokens(t.Context(), []string{"a"}, EmbedOptions{})
	require.ErrorContains(t, err, `colbert_linear.pt stores this head as a pickle`)
	_, err = m.Embed(t.Context(), []string{"a"}, EmbedOptions{})
	require.NoError(t, err, "vectors of texts need no head")
}

// What is cut is said, with the number of tokens.
func TestTruncated(t *testing.T) {
	m := openModel(t, "minilm", Options{})
	long := strings.Repeat("word ", 100)
	_, err := m.Embed(t.Context(), []string{"a", long}, EmbedOptions{Truncated: func(i, tokens, limit int) {
		n, err := m.TokenCount(t.Context(), long)
		require.NoError(t, err)
		require.Equal(t, [3]int{1, n, 48}, [3]int{i, tokens, limit})
	}})
	require.NoError(t, err)
}

// Many calls at once get what each would get alone, within a memory limit that allows small batches only.
func TestManyCallers(t *testing.T) {
	list := texts(t)
	alone := openModel(t, "minilm", Options{Sessions: 1})
	want, err := alone.Embed(t.Context(), list, EmbedOptions{})
	require.NoError(t, err)
	reads, err := alone.engine.reading(alone.usual(alone.model, alone.heads)...)
	require.NoError(t, err)
	report, err := reads.programs[0].Plan(alone.engine.layout.sizes(4, 48))
	require.NoError(t, err)
	limit := 2 * report.Plan.Committed
	m := openModel(t, "minilm", Options{Sessions: 2, Compile: rlxc.CompileOptions{MemoryLimit: limit}})
	reads, err = m.engine.reading(m.usual(m.model, m.heads)...)
	require.NoError(t, err)
	most, err := m.engine.sequences(extent{reads: reads, tokens: 48})
	require.NoError(t, err)
	require.GreaterOrEqual(t, most, 1)
	require.LessOrEqual(t, most, 4)
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			got, err := m.Embed(t.Context(), list[k*25:(k+1)*25], EmbedOptions{})
			require.NoError(t, err)
			for i, v := range got {
				require.InDeltaSlice(t, want[k*25+i], v, 1e-5)
			}
		})
	}
	wg.Wait()
	held := int64(0)
	for _, s := range m.engine.idle {
		held += s.MemoryBytes()
	}
	require.LessOrEqual(t, held, limit)

	none, err := Open(t.Context(), "testdata/minilm", Options{Compile: rlxc.CompileOptions{MemoryLimit: 1000}})
	require.NoError(t, err)
	_, err = none.Embed(t.Context(), list[:1], EmbedOptions{})
	require.ErrorIs(t, err, rlxc.ErrMemory)
	require.NoError(t, none.Close())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = m.Embed(ctx, list, EmbedOptions{})
	require.ErrorIs(t, err, context.Canceled)
}

// TestSessionsShareTheMemoryLimit: concurrent batches together stay within the limit, so that a text fits if its arena times the number of
// sessions does.
func TestSessionsShareTheMemoryLimit(t *testing.T) {
	long := strings.Repeat("word ", 100)
	for _, row := range []struct {
		name  string
		unpad bool
	}{{"with padding", false}, {"without padding", true}} {
		t.Run(row.name, func(t *testing.T) {
			with := func(sessions int, limit int64) *Model {
				compile := rlxc.CompileOptions{Unpad: row.unpad, MemoryLimit: limit}
				return openModel(t, "minilm", Options{Sessions: sessions, Compile: compile})
			}
			m := with(1, 0)
			report, err := m.programs[0].Plan(m.engine.layout.sizes(1, m.MaxLength))
			require.NoError(t, err)
			need := report.Plan.Committed
			if row.unpad {
				need += packedBytes * int64(m.MaxLength)
			}
			for sessions := 1; sessions < 4; sessions++ {
				need := int64(sessions) * need
				_, err := with(sessions, need).Embed(t.Context(), []string{long, "a", long}, EmbedOptions{})
				require.NoError(t, err, "%d sessions", sessions)
				_, err = with(sessions, need-1).Embed(t.Context(), []string{long}, EmbedOptions{})
				require.ErrorIs(t, err, rlxc.ErrMemory, "%d sessions", sessions)
				require.ErrorContains(t, err, "fewer sessions have more each")
			}
		})
	}
}

// TestDefaultSessionsHaveMemory: where there is little memory, there are fewer sessions, and at least one.
func TestDefaultSessionsHaveMemory(t *testing.T) {
	sessions := func(limit int64) int {
		return Options{Compile: rlxc.CompileOptions{Threads: 1, MemoryLimit: limit}}.Defaults().Sessions
	}
	require.Equal(t, runtime.GOMAXPROCS(0), sessions(1<<40))
	require.Equal(t, 1, sessions(2*leastShare-1))
	require.Equal(t, 1, sessions(1))
}

// Two devices share the batches: each goes to the one that runs the fewest, by an idle session of it if there is one.
func TestDevices(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	drivertest.New(t).Devices = 2
	m := openModel(t, "minilm", Options{Sessions: 1, Compile: rlxc.CompileOptions{Backend: "cuda", Device: "0, 1"}})
	require.Equal(t, 2, m.schedule.workers, "one a device at least")
	e := m.engine
	reads, err := e.reading(m.usual(m.model, m.heads)...)
	require.NoError(t, err)
	take := func() *rlxc.Session {
		s, err := e.session(reads)
		require.NoError(t, err)
		return s
	}
	first, second, third := take(), take(), take()
	require.Equal(t, []int{0, 1, 0}, []int{e.place[first].device, e.place[second].device, e.place[third].device})
	e.putBack(third)
	e.putBack(second)
	require.Same(t, second, take(), "device 1 runs nothing")
	require.Same(t, third, take())
	for _, s := range []*rlxc.Session{first, second, third} {
		e.putBack(s)
	}
	_, err = Open(t.Context(), "testdata/minilm", Options{Compile: rlxc.CompileOptions{Backend: "cuda", Device: "0,2"}})
	require.ErrorContains(t, err, "no NVIDIA device 2: there are 2, numbered from 0")
}

// FuzzSafetensors reads weights of any bytes.
func FuzzSafetensors(f *testing.F) {
	good, err := os.ReadFile("testdata/dense/2_Dense/model.safetensors")
	require.NoError(f, err)
	f.Add(good)
	header := `{"linear.weight":{"dtype":"F32","shape":[12,32],"data_offsets":[0,18446744073709551615]}}`
	f.Add(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...))
	f.Add(binary.LittleEndian.AppendUint64(nil, 1<<63))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &safetensors{path: "x"}
		if s.readHeader(data) != nil {
			return
		}
		if v, err := s.floats("linear.weight", 12, 32); err == nil {
			require.Len(t, v, 12*32)
		}
	})
}

// TestSidePrompts holds which prompt texts of a side get, whatever else sentence-transformers has written into the files.
func TestSidePrompts(t *testing.T) {
	main := "main"
	for name, c := range map[string]struct {
		prompts         map[string]string
		query, document string
	}{
		"e5":    {map[string]string{"query": "query: ", "document": "", "passage": "passage: "}, "query: ", "passage: "},
		"nomic": {map[string]string{"query": "", "document": "", "search_query": "q ", "search_document": "d ", "main": "m "}, "q ", "d "},
		"empty": {map[string]string{"query": "", "document": "", "main": "m "}, "", ""},
		"none":  {map[string]string{"main": "m "}, "", ""},
	} {
		m := &Model{Description: &Description{prompts: promptConfig{Prompts: c.prompts, Default: &main}}}
		for side, want := range map[Side]string{Query: c.query, Document: c.document, Neither: c.prompts["main"]} {
			got, err := m.Prompt(EmbedOptions{Side: side})
			require.NoError(t, err)
			require.Equal(t, want, got, "%s %s", name, side)
		}
	}
}

// TestBrokenFiles: every JSON file of a model's folder is read, and one that is broken is named.
func TestBrokenFiles(t *testing.T) {
	for _, model := range []string{"minilm", "colbert", "dense", "splade", "classify"} {
		names, err := fs.Glob(os.DirFS(filepath.Join("testdata", model)), "*.json")
		require.NoError(t, err)
		inner, err := fs.Glob(os.DirFS(filepath.Join("testdata", model)), "*/*.json")
		require.NoError(t, err)
		for _, name := range append(names, inner...) {
			dir := copyModel(t, model)
			write(t, filepath.Join(dir, name), `{"a": `)
			_, err := Describe(dir, Options{})
			if err == nil {
				_, err = Open(t.Context(), dir, Options{})
			}
			require.ErrorContains(t, err, name, "%s of %s", name, model)
		}
	}
}

// Where no file says how many tokens a model takes, its table of positions does; without one it takes any number.
func TestLengthOfModel(t *testing.T) {
	for model, want := range map[string]int{"minilm": 64, "decoder": 0} {
		dir := copyModel(t, model)
		for file, line := range map[string]string{"config.json": `(?m)^.*"max_position_embeddings".*$`,
			"tokenizer_config.json": `(?m)^.*"model_max_length".*$`, "sentence_bert_config.json": `"max_seq_length": \d+,`} {
			text, err := os.ReadFile(filepath.Join(dir, file))
			require.NoError(t, err)
			write(t, filepath.Join(dir, file), regexp.MustCompile(line).ReplaceAllString(string(text), ""))
		}
		config := filepath.Join(dir, "tokenizer_config.json")
		without, err := os.ReadFile(config)
		require.NoError(t, err)
		for _, length := range []string{"", "0", "-1", "0.5", "1e30"} { // none of which is a length
			if length != "" {
				write(t, config, strings.Replace(string(without), "{", `{"model_max_length": `+length+",", 1))
			}
			m, err := Open(t.Context(), dir, Options{})
			require.NoError(t, err)
			require.Equal(t, want, m.MaxLength, "%s %s", model, length)
			require.NoError(t, m.Close())
		}
	}
}
