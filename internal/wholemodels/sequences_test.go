package wholemodels

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	_ "github.com/rlxc/rlxc/backend/wgpu"
	"github.com/rlxc/rlxc/internal/fixtures"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/tensor"
)

var modelSequences = flag.Int("model-sequences", 1, "sequences of sizes that TestSequencesOf… run of each model; above 1 of all models")

// sequenceModels are the models of TestSequencesOfModels that ordinary tests run: one of each kind.
var sequenceModels = []string{"bert-tiny", "bert-tiny-int8-dynamic", "bert-tiny-int4", "deberta-legacy-17", "modernbert-dynamo-20",
	"gpt2-dynamo-23", "llama-legacy-17", "qwen3-embedding-legacy-17", "clip-text-legacy-17", "funnel-legacy-17", "resnet-legacy-17",
	"lstm-legacy-17", "llama-gqa", "loop", "reshape", "signal"}

// sequenceCaches are the decoders of TestSequencesOfCaches that ordinary tests run.
var sequenceCaches = []string{"gpt2-merged", "bloom", "t5", "mistral"}

// cacheBackends are the backends that TestSequencesOfCaches runs decoders on; "" is the CPU.
var cacheBackends = []string{""}

// sequenceFixtures are the large fixtures of TestSequencesOfModels.
var sequenceFixtures = []string{"bert-tiny", "bert-tiny-dynamo", "bert-tiny-fp16", "bert-tiny-int4", "bert-tiny-int8-dynamic",
	"bert-tiny-int8-qdq", "bert-tiny-mlm", "bert-tiny-opset11", "distilbert", "roberta", "minilm", "minilm-int8-dynamic"}

// A sequenceWay is options that change what is planned.
type sequenceWay struct {
	name    string
	options rlxc.CompileOptions
	long    bool // whether ordinary tests leave it out
}

// sequenceWays are the options that TestSequencesOfModels compiles each model with.
var sequenceWays = []sequenceWay{
	{"as it is", rlxc.CompileOptions{}, false},
	{"unpadded", rlxc.CompileOptions{Unpad: true}, false},
	{"in slices of the batch", rlxc.CompileOptions{MemoryLimit: 1}, false}, // as much as the recorded sizes need
	{"two threads", rlxc.CompileOptions{Threads: 2}, true},
	{"-O 0", rlxc.CompileOptions{Level: rlxc.O0}, true},
	{"wgpu", rlxc.CompileOptions{Backend: "wgpu"}, true},
}

// TestSequencesOfModels runs whole models at several sizes in random order in one session, without proofs. Each result must be that of a
// session which has run at that size alone, bit for bit, and the check must reject no plan.
func TestSequencesOfModels(t *testing.T) {
	t.Chdir(root)
	folders := map[string]fs.FS{}
	for _, pattern := range []string{"testdata/exports/*.zip", "testdata/decoders/*.zip", "testdata/control/*.zip"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			z, err := zip.OpenReader(file)
			require.NoError(t, err)
			defer z.Close()
			folders[strings.TrimSuffix(filepath.Base(file), ".zip")] = z
		}
	}
	for _, name := range sequenceFixtures {
		if dir := os.Getenv("RLXC_FIXTURES"); dir != "" {
			folders[name] = os.DirFS(filepath.Join(dir, name))
		}
	}
	packaged, err := filepath.Glob(filepath.Join(os.Getenv(envPackages), "*", "model.onnx"))
	require.NoError(t, err)
	for _, file := range packaged {
		folders["package "+filepath.Base(filepath.Dir(file))] = os.DirFS(filepath.Dir(file))
	}
	names := sequenceModels
	if *modelSequences > 1 {
		names = slices.Sorted(maps.Keys(folders))
		names = slices.DeleteFunc(names, func(name string) bool {
			sets, err := models.Sets(folders[name])
			return err != nil || len(sets) == 0
		})
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			if slices.Contains(sequenceFixtures, name) {
				fixtures.Dir(t) // or the test is skipped
			}
			require.NotNil(t, folders[name])
			m, err := rlxc.OpenFS(folders[name], "model.onnx")
			require.NoError(t, err)
			defer m.Close()
			sets, err := models.Sets(folders[name])
			require.NoError(t, err)
			base := fixtures.Inputs(t, folders[name], sets[0], namesOf(m.Inputs()))
			for _, w := range sequenceWays {
				if w.long && *modelSequences == 1 || w.options.Backend == "wgpu" && os.Getenv("RLXC_WGPU") == "" {
					continue
				}
				t.Run(w.name, func(t *testing.T) { sequencesOf(t, m, base, w.options) })
			}
		})
	}
}

// TestSequencesOfCaches runs decoders whose cache grows in place: prompts of random lengths and some tokens after each, in one session. The
// scores must be those of a session that has read this prompt alone, bit for bit, and the check must reject no plan.
func TestSequencesOfCaches(t *testing.T) {
	t.Chdir(root)
	files, err := filepath.Glob("testdata/decoders/*.zip")
	require.NoError(t, err)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".zip")
		if *modelSequences == 1 && !slices.Contains(sequenceCaches, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			z, err := zip.OpenReader(file)
			require.NoError(t, err)
			defer z.Close()
			text, err := fs.ReadFile(z, "generations.json")
			if errors.Is(err, fs.ErrNotExist) {
				return // it has recorded runs instead
			}
			require.NoError(t, err)
			var generations []generation
			require.NoError(t, json.Unmarshal(text, &generations))
			m, err := rlxc.OpenFS(z, "model.onnx")
			require.NoError(t, err)
			defer m.Close()
			for _, backend := range cacheBackends {
				p, err := m.Compile(t.Context(), rlxc.CompileOptions{Backend: backend, Threads: 1})
				require.NoError(t, err)
				defer p.Close()
				for _, g := range generations {
					g.sequences(t, p)
				}
				require.Zero(t, p.CacheStats().Rejected)
			}
		})
	}
}

// sequences runs as many texts as a generation has, of other lengths.
func (g generation) sequences(t *testing.T, p *rlxc.Program) {
	rnd := rand.New(rand.NewPCG(54, 2))
	const longest, steps = 12, 3
	open := func() *batch {
		b, err := newBatch(p, len(g.Prompts), longest+steps)
		require.NoError(t, err)
		if g.Encoder != nil {
			b.encoder = tensor.FromSlice(g.Encoder, g.EncoderShape...)
		}
		return b
	}
	shared := open()
	defer shared.Close()
	var lengths []int
	for range 4 * *modelSequences {
		lengths = append(lengths, 1+rnd.IntN(longest))
		alone := open()
		require.NoError(t, shared.cache.Truncate(0))
		shared.read = 0
		for step := range 1 + steps {
			tokens := make([][]int64, len(g.Prompts))
			for i := range tokens {
				tokens[i] = make([]int64, 1)
				if step == 0 {
					tokens[i] = make([]int64, lengths[len(lengths)-1])
				}
				for k := range tokens[i] {
					tokens[i][k] = g.Prompts[i][rnd.IntN(len(g.Prompts[i]))]
				}
			}
			want, err := alone.logits(tokens, make([]int, len(tokens)))
			require.NoError(t, err)
			got, err := shared.logits(tokens, make([]int, len(tokens)))
			require.NoError(t, err)
			require.True(t, bytes.Equal(want.Bytes(), got.Bytes()), "step %d after prompts of %v tokens", step, lengths)
		}
		require.NoError(t, alone.Close())
	}
}

// sequencesOf runs a model at sequences of sizes.
func sequencesOf(t *testing.T, m *rlxc.Model, base map[string]*tensor.Tensor, options rlxc.CompileOptions) {
	if options.Threads == 0 {
		options.Threads = 1
	}
	if options.MemoryLimit == 1 {
		options.MemoryLimit = arenaOf(t, m, base) + 4096
	}
	p, err := m.Compile(t.Context(), options)
	require.NoError(t, err)
	defer p.Close()
	rnd := rand.New(rand.NewPCG(54, uint64(*modelSequences)))
	ran := 0
	for range *modelSequences {
		sets := otherSizes(p, base, rnd, 4)
		want := make([]map[string]*tensor.Tensor, len(sets))
		for k, in := range sets {
			want[k] = aloneAt(t, p, in)
		}
		s, err := p.NewSession()
		require.NoError(t, err)
		for _, memory := range inside.Session(s).Memories() {
			if m, ok := memory.(interface{ Poison(byte) }); ok {
				m.Poison(0xFF)
			}
		}
		var before []string
		for _, k := range append(rnd.Perm(len(sets)), rnd.Perm(len(sets))...) {
			out, err := s.Run(context.Background(), sets[k])
			before = append(before, sizesText(p, sets[k]))
			if want[k] == nil {
				require.Error(t, err, "%v", before)
				continue
			}
			if options.MemoryLimit > 0 && errors.Is(err, rlxc.ErrMemory) {
				continue // the arenas of earlier sizes are in the way
			}
			require.NoError(t, err, "%v", before)
			for name, y := range want[k] {
				x := out[name]
				require.Equal(t, y.Shape(), x.Shape(), "%s after %v", name, before)
				require.True(t, y.DType() == tensor.String || bytes.Equal(x.Bytes(), y.Bytes()), "%s differs after %v", name, before)
			}
			ran++
		}
		require.NoError(t, s.Close())
	}
	require.Zero(t, p.CacheStats().Rejected)
	if options.MemoryLimit == 0 {
		require.Positive(t, ran)
	}
	t.Logf("%d runs", ran)
}

// arenaOf returns the bytes of the arenas that a model needs for some inputs.
func arenaOf(t *testing.T, m *rlxc.Model, in map[string]*tensor.Tensor) int64 {
	p, err := m.Compile(t.Context(), rlxc.CompileOptions{Threads: 1})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Run(t.Context(), in)
	require.NoError(t, err)
	return inside.Session(s).ArenaBytes()
}

// aloneAt runs inputs in a new session; nil if they are refused.
func aloneAt(t *testing.T, p *rlxc.Program, in map[string]*tensor.Tensor) map[string]*tensor.Tensor {
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	out, err := s.Run(context.Background(), in)
	require.NotErrorIs(t, err, rlxc.ErrInternal)
	if err != nil {
		return nil
	}
	copied := map[string]*tensor.Tensor{}
	for name, x := range out {
		copied[name] = x.Clone()
	}
	return copied
}

// otherSizes returns sets of inputs, the first one with the recorded sizes. A size that is the sum of two others there is so in all sets.
func otherSizes(p *rlxc.Program, base map[string]*tensor.Tensor, rnd *rand.Rand, sets int) (list []map[string]*tensor.Tensor) {
	recorded := map[string]int{}
	for _, v := range p.Inputs() {
		for i, d := range v.Shape {
			if _, err := strconv.Atoi(d); err != nil {
				recorded[d] = base[v.Name].Shape()[i]
			}
		}
	}
	symbols := slices.Sorted(maps.Keys(recorded))
	isSum := func(sum string) (a, b string) {
		for i, a := range symbols {
			for _, b := range symbols[i+1:] {
				if a != sum && b != sum && recorded[a] > 0 && recorded[b] > 0 && recorded[a]+recorded[b] == recorded[sum] &&
					strings.Contains(a+b, "past") {
					return a, b
				}
			}
		}
		return "", ""
	}
	for k := range sets {
		sizes := maps.Clone(recorded)
		for _, name := range symbols {
			if n := recorded[name]; k > 0 {
				sizes[name] = max(1, []int{n, n + 1, n - 1, 2 * n, n + 3, 1, n + n/2}[rnd.IntN(7)])
			}
		}
		for _, name := range symbols {
			if a, b := isSum(name); a != "" {
				sizes[name] = sizes[a] + sizes[b]
			}
		}
		set := map[string]*tensor.Tensor{}
		for _, v := range p.Inputs() {
			shape := slices.Clone(base[v.Name].Shape())
			for i, d := range v.Shape {
				if n, ok := sizes[d]; ok {
					shape[i] = n
				}
			}
			set[v.Name] = like(base[v.Name], v.Name, shape, rnd)
		}
		list = append(list, set)
	}
	return list
}

// like draws numbers between the least and the largest of a tensor. Masks have ones, and zeros at the end of some rows.
func like(base *tensor.Tensor, name string, shape []int, rnd *rand.Rand) *tensor.Tensor {
	if base.DType() == tensor.String || slices.Equal(shape, base.Shape()) {
		return base
	}
	t := tensor.New(base.DType(), shape...)
	if base.DType().IsFloat() {
		for i := range t.Len() {
			t.SetFloat64(i, 2*rnd.Float64()-1)
		}
		return t
	}
	low, high := int64(0), int64(0)
	for i := range base.Len() {
		low, high = min(low, base.Int64(i)), max(high, base.Int64(i))
	}
	length := 1
	if len(shape) > 0 {
		length = max(1, shape[len(shape)-1])
	}
	tokens := length
	for i := range t.Len() {
		if i%length == 0 {
			tokens = length - rnd.IntN(2)*rnd.IntN(length)
		}
		switch {
		case !strings.Contains(name, "mask"):
			t.SetInt64(i, low+rnd.Int64N(high-low+1))
		case i%length < tokens:
			t.SetInt64(i, 1)
		}
	}
	return t
}

// sizesText lists the shapes of inputs.
func sizesText(p *rlxc.Program, in map[string]*tensor.Tensor) (text string) {
	for _, v := range p.Inputs() {
		text += fmt.Sprint(in[v.Name].Shape())
	}
	return text
}
