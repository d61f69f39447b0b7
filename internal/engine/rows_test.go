package engine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// packs is a program without padding: its main part negates ids.
const packs = `(%0 "mask": i64[b,s], %1 "ids": i64[b,s]) { %2: i32[b,4], %3: i32[b], %4: i32[b,4], %5: i32[b,4], %6: i32[t], %7: i64[1,t], %8: i64[1,t] = rlxc.Pack(%0, %1)
	%9 = neg(%8) %10: i64[b,s] = rlxc.Unpack(%9, %6, %1) return %10 as "y" }`

// TestRowsAreHeld: what is laid out for a run counts against the memory limit while the run lasts.
func TestRowsAreHeld(t *testing.T) {
	p, err := Compile(context.Background(), text(packs), text(packs).Graph, options.Compile{Backend: "cpu"})
	require.NoError(t, err)
	defer p.Close()
	require.True(t, p.Unpadded())
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	s.use = s.usage()
	account := &s.use.memory
	before, run := account.Used, &stageRun{env: map[*ir.Value]*tensor.Tensor{}, sizes: ir.Binding{}, tokens: 5}
	made, err := s.lay(&ir.Env{Context: context.Background(), Memory: account}, run, texts{0, 2, 5}, map[string]*tensor.Tensor{"ids": tensor.New(tensor.I64, 5)})
	require.NoError(t, err)
	require.NotEmpty(t, made)
	held := int64(0)
	for _, x := range made {
		held += x.Size()
	}
	require.Equal(t, held, account.Used-before)
}
