package wholemodels

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/tensor"
)

// A generation is what onnxruntime writes after some prompts, for what an encoder has made of other texts if the model has one.
type generation struct {
	Prompts, Tokens [][]int64
	Encoder         []float32
	EncoderShape    []int `json:"encoder_shape"`
}

// A batch writes several texts at once.
type batch struct {
	*rlxc.Session
	cache   *rlxc.Cache
	inputs  []rlxc.ValueInfo
	read    int // tokens of each text, with padding
	encoder *tensor.Tensor
}

// newBatch makes a batch of that many texts, with room for that many tokens in each.
func newBatch(p *rlxc.Program, texts, room int) (_ *batch, err error) {
	b := &batch{inputs: p.Inputs()}
	if b.Session, err = p.NewSession(); err != nil {
		return nil, err
	}
	if b.cache, err = b.BindCache(texts, room); err != nil {
		return nil, errors.Join(err, b.Session.Close())
	}
	return b, nil
}

// logits reads as many tokens of each text, of which padding is in front, and returns the scores of what follows each token.
func (b *batch) logits(tokens [][]int64, padding []int) (*tensor.Tensor, error) {
	texts, n := len(tokens), len(tokens[0])
	b.read += n
	ids, positions := tensor.New(tensor.I64, texts, n), tensor.New(tensor.I64, texts, n)
	mask := tensor.New(tensor.I64, texts, b.read)
	for t := range texts {
		for i := range n {
			ids.SetInt64(t*n+i, tokens[t][i])
			positions.SetInt64(t*n+i, int64(max(b.read-n+i-padding[t], 0)))
		}
		for i := padding[t]; i < b.read; i++ {
			mask.SetInt64(t*b.read+i, 1)
		}
	}
	known := rlxc.Tensors{"input_ids": ids, "position_ids": positions, "attention_mask": mask,
		"use_cache_branch": tensor.FromSlice([]bool{b.read > n}, 1)}
	if b.encoder != nil {
		known["encoder_hidden_states"] = b.encoder
		known["encoder_attention_mask"] = tensor.New(tensor.I64, b.encoder.Shape()[:2]...)
		for i := range known["encoder_attention_mask"].Len() {
			known["encoder_attention_mask"].SetInt64(i, 1)
		}
	}
	in := rlxc.Tensors{}
	for _, v := range b.inputs {
		if known[v.Name] != nil {
			in[v.Name] = known[v.Name]
		}
	}
	out, err := b.Run(context.Background(), in)
	return out["logits"], err
}

// next reads as many tokens of each text, of which padding is in front, and returns the likeliest tokens after them that none of the texts
// has been given as written.
func (b *batch) next(tokens [][]int64, padding []int, written [][]int64) ([]int64, error) {
	logits, err := b.logits(tokens, padding)
	if err != nil {
		return nil, err
	}
	next := make([]int64, len(tokens))
	vocabulary := logits.Shape()[2]
	for t := range tokens {
		row := make([]float32, vocabulary)
		for i := range row {
			row[i] = float32(logits.Float64((t*logits.Shape()[1]+logits.Shape()[1]-1)*vocabulary + i))
		}
		next[t] = likeliest(row, written[t])
	}
	return next, nil
}

func (b *batch) Close() error { return errors.Join(b.Session.Close(), b.cache.Close()) }

// generates runs a generation and holds it to what onnxruntime wrote: with a cache that grows where it is, few plans, and a kernel for
// every step.
func (g generation) generates(t *testing.T, p *rlxc.Program) {
	longest := len(slices.MaxFunc(g.Prompts, func(a, b []int64) int { return len(a) - len(b) }))
	b, err := newBatch(p, len(g.Prompts), longest+len(g.Tokens[0])-1)
	require.NoError(t, err)
	defer b.Close()
	if g.Encoder != nil {
		b.encoder = tensor.FromSlice(g.Encoder, g.EncoderShape...)
	}
	given, padding, got := make([][]int64, len(g.Prompts)), make([]int, len(g.Prompts)), make([][]int64, len(g.Prompts))
	for i, prompt := range g.Prompts {
		padding[i] = longest - len(prompt)
		given[i] = append(make([]int64, padding[i]), prompt...)
	}
	for range g.Tokens[0] {
		next, err := b.next(given, padding, got)
		require.NoError(t, err)
		for i, token := range next {
			got[i], given[i] = append(got[i], token), []int64{token}
		}
	}
	require.Equal(t, g.Tokens, got)
	growing := reflect.ValueOf(b.cache).Elem().FieldByName("engine").Elem().FieldByName("growing")
	require.Positive(t, growing.Len())
	for i := range growing.Len() {
		require.True(t, growing.Index(i).Elem().FieldByName("next").IsNil(),
			"cache %d has had another buffer", i)
	}
}

// TestGenerations: decoders of many families write what they write with onnxruntime, one text and two of different lengths.
func TestGenerations(t *testing.T) {
	t.Chdir(root)
	files, err := filepath.Glob("testdata/decoders/*.zip")
	require.NoError(t, err)
	for _, file := range files {
		z, err := zip.OpenReader(file)
		require.NoError(t, err)
		defer z.Close()
		testDecoder(t, strings.TrimSuffix(filepath.Base(file), ".zip"), z)
	}
}

// testDecoder tests the model of a folder, if it has generations.
func testDecoder(t *testing.T, name string, folder fs.FS) {
	text, err := fs.ReadFile(folder, "generations.json")
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	require.NoError(t, err)
	var generations []generation
	require.NoError(t, json.Unmarshal(text, &generations))
	m, err := rlxc.OpenFS(folder, "model.onnx")
	require.NoError(t, err)
	defer m.Close()
	for _, level := range levels {
		t.Run(name+"/"+string(level), func(t *testing.T) {
			p, err := m.Compile(context.Background(), rlxc.CompileOptions{Level: level, Verify: true})
			require.NoError(t, err)
			defer p.Close()
			if level == rlxc.O2 {
				require.Empty(t, inside.Program(p).Reference())
			}
			for _, g := range generations {
				before := p.CacheStats().Planned
				g.generates(t, p)
				// The prompt, the step after it, and the others; for a table of few positions another attempt.
				require.LessOrEqual(t, p.CacheStats().Planned-before, 4)
			}
		})
	}
}
