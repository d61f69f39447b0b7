package robustness

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/tensor"
)

// TestBadInputs: a good model says which of its inputs is wrong, and the session continues.
func TestBadInputs(t *testing.T) {
	config, ok := models.Lookup("bert-tiny")
	require.True(t, ok)
	p, err := models.Build(config)
	require.NoError(t, err)
	m, err := rlxc.FromProto(p, "bert-tiny")
	require.NoError(t, err)
	defer m.Close()
	program, err := m.Compile(context.Background(), rlxc.CompileOptions{MemoryLimit: memoryLimit})
	require.NoError(t, err)
	defer program.Close()
	s, err := program.NewSession()
	require.NoError(t, err)
	defer s.Close()
	good := func() rlxc.Tensors {
		in := rlxc.Tensors{}
		for _, info := range m.Inputs() {
			in[info.Name] = tensor.New(tensor.I64, 2, 4)
		}
		for i := range 8 {
			in["attention_mask"].SetInt64(i, 1)
			in["input_ids"].SetInt64(i, int64(i))
		}
		return in
	}
	first, err := s.Run(context.Background(), good())
	require.NoError(t, err)
	want := map[string]*tensor.Tensor{}
	for name, v := range first {
		want[name] = v.Clone()
	}
	ids := func(v int64) func(rlxc.Tensors) {
		return func(in rlxc.Tensors) { in["input_ids"].SetInt64(3, v) }
	}
	for name, c := range map[string]struct {
		spoil func(rlxc.Tensors)
		says  string
	}{
		"missing":                    {func(in rlxc.Tensors) { delete(in, "attention_mask") }, "attention_mask"},
		"nil":                        {func(in rlxc.Tensors) { in["input_ids"] = nil }, "input_ids"},
		"unknown name":               {func(in rlxc.Tensors) { in["token_ids"] = in["input_ids"] }, "token_ids"},
		"name that a terminal obeys": {func(in rlxc.Tensors) { in["\x1b[2J"] = in["input_ids"] }, `\x1b`},
		"another type":               {func(in rlxc.Tensors) { in["input_ids"] = tensor.New(tensor.F32, 2, 4) }, "input_ids"},
		"strings":                    {func(in rlxc.Tensors) { in["input_ids"] = tensor.New(tensor.String, 2, 4) }, "input_ids"},
		"a sequence":                 {func(in rlxc.Tensors) { in["input_ids"] = tensor.NewSequence() }, "input_ids"},
		"rank 1":                     {func(in rlxc.Tensors) { in["input_ids"] = tensor.New(tensor.I64, 8) }, "input_ids"},
		"rank 3":                     {func(in rlxc.Tensors) { in["input_ids"] = tensor.New(tensor.I64, 2, 4, 1) }, "input_ids"},
		"a mask of another batch":    {func(in rlxc.Tensors) { in["attention_mask"] = tensor.New(tensor.I64, 1, 4) }, "attention_mask"},
		"a longer mask":              {func(in rlxc.Tensors) { in["attention_mask"] = tensor.New(tensor.I64, 2, 5) }, "attention_mask"},
		"id above the vocabulary":    {ids(1 << 20), "1048576"},
		"id of MAX":                  {ids(math.MaxInt64), "9223372036854775807"},
		"id of MIN":                  {ids(math.MinInt64), "-9223372036854775808"},
		"token type 2":               {func(in rlxc.Tensors) { in["token_type_ids"].SetInt64(0, 2) }, "2"},
		"too long": {func(in rlxc.Tensors) {
			for name := range in {
				in[name] = tensor.New(tensor.I64, 1, 1<<14)
			}
		}, ""},
		"more than memory": {func(in rlxc.Tensors) {
			for name := range in {
				in[name] = tensor.New(tensor.I64, 1<<14, 64)
			}
		}, "limit"},
	} {
		in := good()
		c.spoil(in)
		_, err := s.Run(context.Background(), in)
		require.Error(t, err, name)
		require.ErrorContains(t, err, c.says, name)
		require.NotContains(t, err.Error(), "internal error", name)
		require.Empty(t, unprintable.FindString(err.Error()), name)
		again, err := s.Run(context.Background(), good())
		require.NoError(t, err, name)
		for output, v := range want {
			require.Equal(t, v.Bytes(), again[output].Bytes(), "%s: the run after it", name)
		}
	}
	for _, shape := range [][]int{{0, 4}, {2, 0}, {0, 0}} { // nothing, or an error: in good order
		in := rlxc.Tensors{}
		for _, info := range m.Inputs() {
			in[info.Name] = tensor.New(tensor.I64, shape...)
		}
		out, err := s.Run(context.Background(), in)
		if err != nil {
			require.NotContains(t, err.Error(), "internal error")
			continue
		}
		require.Equal(t, shape[0], out["last_hidden_state"].Shape()[0])
	}
}
