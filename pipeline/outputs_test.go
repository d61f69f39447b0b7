package pipeline

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/tensor"
)

// TestForms holds the form of an output to the symbols that it shares with the inputs.
func TestForms(t *testing.T) {
	ids := []string{"batch", "seq"}
	for _, test := range []struct {
		name      string
		ids       []string // shape of input_ids
		shape     []string
		suggested []form
		want      form
	}{
		{"a vector for each text", ids, []string{"batch", "384"}, nil, textVectors},
		{"a number for each text", ids, []string{"batch"}, nil, textNumbers},
		{"a number for each token", ids, []string{"batch", "seq"}, nil, tokenNumbers},
		{"no suggestion turns tokens into sizes", ids, []string{"batch", "seq"}, []form{textVectors}, tokenNumbers},
		{"a vector for each token", ids, []string{"batch", "seq", "384"}, nil, tokenVectors},
		{"a vector for each token but the first", ids, []string{"batch", "-min(1,seq)+seq", "32"}, nil, tokenVectors},
		{"one more vector than tokens", ids, []string{"batch", "seq+1", "32"}, nil, otherForm},
		{"names that are not identifiers", []string{`"batch size"`, `"seq length"`}, []string{`"batch size"`, `"seq length"`, "7"}, nil,
			tokenVectors},
		{"a number for each pair of tokens", ids, []string{"batch", "seq", "seq"}, nil, otherForm},
		{"attention by heads", ids, []string{"batch", "4", "seq", "seq"}, nil, otherForm},
		{"the tokens of all texts", ids, []string{"batch*seq", "7"}, nil, otherForm},
		{"two vectors for each text", ids, []string{"2*batch", "7"}, nil, otherForm},
		{"one vector for all texts", ids, []string{"1", "7"}, nil, otherForm},
		{"tokens before texts", ids, []string{"seq", "batch", "7"}, nil, otherForm},
		{"a size that depends on data", ids, []string{"batch", "u12.0"}, nil, otherForm},
		{"texts that depend on data", ids, []string{"u12.0", "7"}, nil, otherForm},
		{"a rank that depends on data", ids, []string{"*"}, nil, otherForm},
		{"fixed batch", []string{"1", "seq"}, []string{"1", "seq", "7"}, nil, tokenVectors},
		{"fixed batch, other number", []string{"4", "seq"}, []string{"1", "7"}, nil, otherForm},
		{"fixed length", []string{"batch", "16"}, []string{"batch", "16", "7"}, nil, tokenVectors},
		{"numbers alone are a vector", []string{"1", "16"}, []string{"1", "16"}, nil, textVectors},
		{"numbers alone are what the name suggests", []string{"1", "16"}, []string{"1", "16"}, []form{tokenNumbers}, tokenNumbers},
	} {
		t.Run(test.name, func(t *testing.T) {
			inputs := []rlxc.ValueInfo{{Name: idsName, DType: tensor.I64, Shape: test.ids}}
			var names []string
			for _, name := range []string{"batch", "seq", "batch size", "seq length"} {
				if slices.Contains(test.ids, name) || slices.Contains(test.ids, `"`+name+`"`) {
					names = append(names, name)
				}
			}
			l, err := layoutOf("m", inputs, names, 0, 0)
			require.NoError(t, err)
			require.Equal(t, test.want, l.form(rlxc.ValueInfo{Name: "x", DType: tensor.F32, Shape: test.shape}, test.suggested))
		})
	}
}

// TestFixedSizesKeepForms: options that fix the sizes of the inputs leave the forms of the outputs as the model's symbols state them.
func TestFixedSizesKeepForms(t *testing.T) {
	dims := rlxc.CompileOptions{Dims: map[string]int{"batch_size": 2, "sequence_length": 32}} // as long as its vectors
	m := openModel(t, "qa", Options{Compile: dims})
	require.Equal(t, output{"start_logits", tokenNumbers}, m.heads.start)
	m = openModel(t, "minilm", Options{Compile: dims})
	require.Equal(t, output{"last_hidden_state", tokenVectors}, m.heads.hidden)
	got, err := m.Embed(t.Context(), []string{"a cat", "the dog sat", "x"}, EmbedOptions{})
	require.NoError(t, err)
	want, err := openModel(t, "minilm", Options{}).Embed(t.Context(), []string{"a cat", "the dog sat", "x"}, EmbedOptions{})
	require.NoError(t, err)
	for i := range want {
		require.InDeltaSlice(t, want[i], got[i], 1e-5)
	}
}

// TestOtherTasks: a task whose form the model's output lacks is refused before a run, with and without padding.
func TestOtherTasks(t *testing.T) {
	for _, name := range []string{"ner", "splade", "qa"} {
		for _, unpad := range []bool{false, true} {
			m := openModel(t, name, Options{Compile: rlxc.CompileOptions{Unpad: unpad}})
			_, err := m.Classify(t.Context(), Texts("a cat", "a dog"), ClassifyOptions{})
			require.ErrorIs(t, err, ErrTask, name)
			require.ErrorContains(t, err, "[batch_size, sequence_length", name)
			_, err = m.Rerank(t.Context(), "a", []string{"b"}, RerankOptions{})
			require.ErrorIs(t, err, ErrTask, name)
			require.Zero(t, m.Tokens(), name)
		}
	}
	_, err := openModel(t, "nli", Options{}).Rerank(t.Context(), "a", []string{"b"}, RerankOptions{})
	require.ErrorIs(t, err, ErrTask)
	_, err = openModel(t, "ner", Options{}).EmbedSparse(t.Context(), []string{"a"}, EmbedOptions{})
	require.ErrorIs(t, err, ErrTask)
	_, err = openModel(t, "splade", Options{}).Tag(t.Context(), []string{"a"}, TagOptions{})
	require.ErrorIs(t, err, ErrTask)
}
