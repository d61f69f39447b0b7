package rlxc

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/fixtures"
	"github.com/rlxc/rlxc/tensor"
	"github.com/rlxc/rlxc/tokenizer"
)

// lowerPrecisions are the ways to compute below float32, and how far the embeddings of sentences may turn.
var lowerPrecisions = map[string]struct {
	options CompileOptions
	cosine  float64
}{
	"bf16": {CompileOptions{Precision: tensor.BF16}, 0.9999},
	"int8": {CompileOptions{Weights: tensor.I8}, 0.995},
}

// TestLowerPrecisionRuns computes the same bits for one worker and two, from the model and from a compiled file, and allocates
// nothing.
func TestLowerPrecisionRuns(t *testing.T) {
	in, ctx := encoderInputs(3, 37), context.Background()
	plain, err := session(t, CompileOptions{}).Run(ctx, in)
	require.NoError(t, err)
	for name, low := range lowerPrecisions {
		o := low.options
		o.Verify, o.Threads = true, 1
		want, err := session(t, o).Run(ctx, in)
		require.NoError(t, err)
		for output, x := range want {
			require.NotEqual(t, plain[output].Bytes(), x.Bytes())
			require.Greater(t, cosine(tensor.Of[float32](plain[output]), tensor.Of[float32](x)), low.cosine, name)
		}
		m, err := Open(saved(t, o))
		require.NoError(t, err)
		defer m.Close()
		require.NoError(t, m.VerifyFile())
		p, err := m.Compile(context.Background(), CompileOptions{Threads: 2})
		require.NoError(t, err)
		defer p.Close()
		require.Zero(t, p.Stats().Packed)
		s, err := p.NewSession()
		require.NoError(t, err)
		defer s.Close()
		got, err := s.Run(ctx, in)
		require.NoError(t, err)
		for output := range want {
			require.Equal(t, want[output].Bytes(), got[output].Bytes(), name)
		}
		require.Zero(t, testing.AllocsPerRun(10, func() {
			if _, err := s.Run(ctx, in); err != nil {
				t.Fatal(err)
			}
		}), name)
	}
}

func TestLowerPrecisionRefused(t *testing.T) {
	for want, o := range map[string]CompileOptions{
		"backend cpu has no precision f16: it offers f32, bf16": {Precision: tensor.F16},
		"backend cpu has no weights i4: it offers f32, i8":      {Weights: tensor.I4},
		"leave out precision bf16":                              {Precision: tensor.BF16, Weights: tensor.I8},
	} {
		_, err := builtin(t).Compile(context.Background(), o)
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, ErrNoDevice)
	}
	m, err := Open(saved(t, CompileOptions{Precision: tensor.BF16}))
	require.NoError(t, err)
	defer m.Close()
	_, err = m.Compile(context.Background(), CompileOptions{Weights: tensor.I8})
	require.ErrorContains(t, err, "compile the model again")
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return ab / math.Sqrt(aa*bb)
}

// TestLowerPrecisionSentences compares the embeddings of sentences with those of float32.
func TestLowerPrecisionSentences(t *testing.T) {
	sentences := fixtures.Sentences(t)
	words, err := tokenizer.Open(fixtures.Dir(t, "tokenizer"))
	require.NoError(t, err)
	m, err := Open(fixtures.Model(t, "minilm"))
	require.NoError(t, err)
	defer m.Close()
	// embed returns the mean of the last hidden states, a row a sentence.
	embed := func(o CompileOptions) (rows [][]float32) {
		p, err := m.Compile(context.Background(), o)
		require.NoError(t, err)
		defer p.Close()
		s, err := p.NewSession()
		require.NoError(t, err)
		defer s.Close()
		for _, sentence := range sentences {
			tokens, err := words.Encode(tokenizer.Text(sentence.Text), 512)
			require.NoError(t, err)
			ids := tensor.FromSlice(tokens.InputIDs, 1, len(tokens.InputIDs))
			mask, types := tensor.New(tensor.I64, ids.Shape()...), tensor.New(tensor.I64, ids.Shape()...)
			for i := range mask.Len() {
				mask.SetInt64(i, 1)
			}
			out, err := s.Run(context.Background(), Tensors{"input_ids": ids, "attention_mask": mask, "token_type_ids": types})
			require.NoError(t, err)
			hidden := out["last_hidden_state"]
			width := hidden.Shape()[2]
			mean := make([]float32, width)
			for i, x := range tensor.Of[float32](hidden) {
				mean[i%width] += x
			}
			rows = append(rows, mean)
		}
		return rows
	}
	plain := embed(CompileOptions{})
	for name, low := range lowerPrecisions {
		worst := 1.0
		for i, row := range embed(low.options) {
			worst = min(worst, cosine(row, plain[i]))
		}
		t.Logf("%s: the cosine is %.6f or above", name, worst)
		require.Greater(t, worst, low.cosine, name)
	}
}
