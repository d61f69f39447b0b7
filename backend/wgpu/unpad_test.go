package wgpu_test

import (
	"archive/zip"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/modeltest"
)

// TestUnpad holds programs without padding to the same on the processor: of masks with holes, windows and biases by position.
func TestUnpad(t *testing.T) {
	needLibrary(t)
	open := func(name string) *rlxc.Model {
		z, err := zip.OpenReader("../../testdata/exports/" + name + ".zip")
		require.NoError(t, err)
		t.Cleanup(func() { z.Close() })
		m, err := rlxc.OpenFS(z, "model.onnx")
		require.NoError(t, err)
		t.Cleanup(func() { m.Close() })
		return m
	}
	for name, m := range map[string]*rlxc.Model{"bert-tiny": modeltest.BuiltIn(t, "bert-tiny"), "modernbert": open("modernbert-dynamo-20"), "mpnet": open("mpnet-legacy-17")} {
		p, err := m.Compile(context.Background(), rlxc.CompileOptions{Backend: "wgpu", Unpad: true, Verify: true})
		require.NoError(t, err)
		require.True(t, p.Unpadded(), name)
		gpu, err := p.NewSession()
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, gpu.Close())
			require.NoError(t, p.Close())
		})
		cpu := modeltest.Session(t, m, rlxc.CompileOptions{Unpad: true})
		r := rand.New(rand.NewPCG(1, 2))
		for _, shape := range [][2]int{{1, 1}, {3, 16}, {2, 40}} {
			in := modeltest.BERT(shape[0], shape[1], r)
			if name != "bert-tiny" { // of another vocabulary, and one kind
				delete(in, "token_type_ids")
				for i := range in["input_ids"].Len() {
					in["input_ids"].SetInt64(i, 3+in["input_ids"].Int64(i)%90)
				}
			}
			want, err := cpu.Run(context.Background(), in)
			require.NoError(t, err)
			got, err := gpu.Run(context.Background(), in)
			require.NoError(t, err)
			for output, w := range want {
				require.InDeltaSlice(t, w.Float64s(), got[output].Float64s(), 2e-4, "%s: %s", name, output)
			}
		}
	}
}
