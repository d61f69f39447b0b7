package rlxc

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/internal/fixtures"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// TestUnpadQuantised holds rows of batches of quantised models to the same rows alone, to the bit: where the ranges of the activations are
// fixed, to those of the padded program; where they follow from the text, to those of the same program.
func TestUnpadQuantised(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) *Model{
		"bert-tiny-qdq":       func(t *testing.T) *Model { return builtinForm(t, "bert-tiny-qdq") },
		"bert-tiny-int8":      func(t *testing.T) *Model { return builtinForm(t, "bert-tiny-int8") },
		"bert-tiny-int8-qdq":  maskedQDQ,
		"minilm-int8-dynamic": func(t *testing.T) *Model { return fixtureModel(t, "minilm-int8-dynamic") },
	} {
		t.Run(name, func(t *testing.T) {
			m := open(t)
			alone, s := sessionOf(t, m, CompileOptions{}), unpadded(t, m, CompileOptions{})
			if name == "bert-tiny-int8-qdq" {
				p, err := m.Compile(context.Background(), CompileOptions{Unpad: true})
				require.NoError(t, err)
				defer p.Close()
				require.True(t, slices.ContainsFunc(p.engine.Graph().Nodes, func(n *ir.Node) bool {
					return n.Op.Kind() == ir.KindQAttention && n.HasOperand(ir.QAttentionSequences)
				}), "no attention of integers by rows")
			}
			for i, kind := range maskKinds {
				for _, size := range [][2]int{{1, 1}, {6, 33}, {17, 9}} {
					t.Run(fmt.Sprintf("%s/%dx%d", kind.name, size[0], size[1]), func(t *testing.T) {
						r := rand.New(rand.NewPCG(5, uint64(i)))
						in := paddedInputs(r, m, drawMask(r, kind, size[0], size[1]))
						got, err := s.Run(context.Background(), in)
						require.NoError(t, err)
						got = maps.Clone(got)
						for output, y := range got {
							got[output] = y.Clone()
						}
						if kind.name == "right" || strings.HasSuffix(name, "qdq") {
							requireRows(t, m, alone, in, got, 0)
						}
						requireRows(t, m, s, in, got, 0)
					})
				}
			}
		})
	}
}

func fixtureModel(t *testing.T, name string) *Model {
	m, err := Open(fixtures.Model(t, name))
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// maskedQDQ is a model of integers throughout, attention included, as if the calibration had seen padding: the lowest quantised value
// of its mask hides a key.
func maskedQDQ(t *testing.T) *Model {
	data, err := os.ReadFile(fixtures.Model(t, "bert-tiny-int8-qdq"))
	require.NoError(t, err)
	var p onnxpb.ModelProto
	require.NoError(t, proto.Unmarshal(data, &p))
	changed := 0
	for _, x := range p.Graph.Initializer {
		switch x.GetName() {
		case "/m/Where_1_output_0_scale":
			x.RawData, x.FloatData = tensor.FromSlice([]float32{1.3e36}, 1).Bytes(), nil
			changed++
		case "/m/Where_1_output_0_zero_point":
			x.RawData, x.Int32Data = []byte{255}, nil
			changed++
		}
	}
	require.Equal(t, 2, changed)
	data, err = proto.Marshal(&p)
	require.NoError(t, err)
	m, err := OpenFS(fstest.MapFS{"model.onnx": {Data: data}}, "model.onnx")
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}
