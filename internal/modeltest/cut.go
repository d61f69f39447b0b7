package modeltest

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/backendtest"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// Cut adds to a float value of a model the sum of the indices of another input's elements that are not 0. Their number depends on data, so
// that the program is cut into segments, of which the first computes a square.
func Cut(m *onnxpb.ModelProto, name string) {
	g := m.GetGraph()
	after := 1 + slices.IndexFunc(g.GetNode(), func(n *onnxpb.NodeProto) bool { return slices.Contains(n.GetOutput(), name) })
	outputs := g.GetNode()[after-1].GetOutput()
	outputs[slices.Index(outputs, name)] = "uncut"
	attribute := func(name string, v int64) []*onnxpb.AttributeProto {
		return []*onnxpb.AttributeProto{{Name: name, Type: onnxpb.AttributeProto_INT, I: v}}
	}
	g.Input = append(g.GetInput(), value("offsets", tensor.F32, "offsets"))
	g.Node = slices.Insert(g.GetNode(), after,
		&onnxpb.NodeProto{OpType: "Mul", Name: "square", Input: []string{"offsets", "offsets"}, Output: []string{"squares"}},
		&onnxpb.NodeProto{OpType: "NonZero", Name: "find", Input: []string{"squares"}, Output: []string{"found"}},
		&onnxpb.NodeProto{OpType: "Cast", Name: "cast", Input: []string{"found"}, Output: []string{"indices"},
			Attribute: attribute("to", int64(onnxpb.TensorProto_FLOAT))},
		&onnxpb.NodeProto{OpType: "ReduceSum", Name: "sum", Input: []string{"indices"}, Output: []string{"offset"},
			Attribute: attribute("keepdims", 0)},
		&onnxpb.NodeProto{OpType: "Add", Name: "shift", Input: []string{"uncut", "offset"}, Output: []string{name}})
}

// offsets is the input of a model that Cut has cut; their indices add up to 3.
func offsets() *tensor.Tensor { return tensor.FromSlice([]float32{1, -1, 2, 0}) }

// profiled holds the profile of a cut program to the steps of all its segments, in their order.
func profiled(t *testing.T, times []rlxc.StepTime) {
	var steps []string
	for _, s := range times {
		require.LessOrEqual(t, s.Start, s.End)
		steps = append(steps, s.Nodes...)
	}
	require.Subset(t, steps, []string{"square", "find", "shift"})
	require.Less(t, slices.Index(steps, "square"), slices.Index(steps, "find"))
	require.Less(t, slices.Index(steps, "find"), slices.Index(steps, "shift"))
}

// UnpadCut holds a program without padding that is cut to each of its sequences alone, with padding, on the processor, and to its profile;
// a packed batch as well.
func UnpadCut(t *testing.T, backend string) {
	fsys, err := models.FS("bert-tiny")
	require.NoError(t, err)
	data, err := fs.ReadFile(fsys, "model.onnx")
	require.NoError(t, err)
	g := &onnxpb.ModelProto{}
	require.NoError(t, proto.Unmarshal(data, g))
	output := g.GetGraph().GetOutput()[0].GetName()
	Cut(g, output)
	m, err := rlxc.FromProto(g, "cut")
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(t.Context(), rlxc.CompileOptions{Backend: backend, Unpad: true, Profile: true, Verify: true})
	require.NoError(t, err)
	defer p.Close()
	require.True(t, p.Unpadded())
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	alone := Session(t, m, rlxc.CompileOptions{})
	r := rand.New(rand.NewPCG(1, 2))
	for _, shape := range [][2]int{{1, 1}, {3, 9}, {2, 20}} {
		in := BERT(shape[0], shape[1], r)
		in["offsets"] = offsets()
		got, err := s.Run(t.Context(), in)
		require.NoError(t, err)
		profiled(t, s.Profile())
		y, mask := got[output], in["attention_mask"]
		size := y.Len() / mask.Len()
		for b := range shape[0] {
			one := rlxc.Tensors{"offsets": offsets()}
			for _, name := range []string{"input_ids", "token_type_ids", "attention_mask"} {
				one[name] = tensor.FromSlice(tensor.Of[int64](in[name])[b*shape[1]:][:shape[1]], 1, shape[1])
			}
			want, err := alone.Run(t.Context(), one)
			require.NoError(t, err)
			for i := range shape[1] * size {
				x := want[output].Float64(i) * float64(one["attention_mask"].Int64(i/size))
				require.InDelta(t, x, y.Float64(b*shape[1]*size+i), 2e-4, "%s of sequence %d of %v, element %d", output, b, shape, i)
			}
		}
	}
}

// DecoderCache holds steps of a decoder whose cache grows on the device to steps on the processor that are given it each time, at lengths
// for which a plan has to be made again, and back at a shorter one; in a program of one segment, and in one that is cut between two layers.
func DecoderCache(t *testing.T, backend string) {
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprint("cut ", cut), func(t *testing.T) { decoderCache(t, backend, cut) })
	}
}

func decoderCache(t *testing.T, backend string, cut bool) {
	const layers, heads, size, capacity = 2, 2, 4, 100
	g := Decoder(layers, heads, size)
	if cut {
		Cut(g, "y.0")
	}
	m, err := rlxc.FromProto(g, "decoder")
	require.NoError(t, err)
	defer m.Close()
	p, err := m.Compile(t.Context(), rlxc.CompileOptions{Backend: backend, Verify: true, Profile: true})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	cache, err := s.BindCache(1, capacity)
	require.NoError(t, err)
	defer cache.Close()
	plain, full := Session(t, m, rlxc.CompileOptions{}), rlxc.Tensors{}
	var caches []string // names of the caches of keys and values of each layer
	for l := range layers {
		for _, what := range []string{"key", "value"} {
			name := fmt.Sprintf(".%d.%s", l, what)
			caches, full["past"+name] = append(caches, name), tensor.New(tensor.F32, 1, heads, 0, size)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for step := range 90 {
		x := tensor.New(tensor.F32, 1, 1, heads*size)
		for i := range x.Len() {
			x.SetFloat64(i, r.NormFloat64())
		}
		in := rlxc.Tensors{"x": x}
		if cut {
			in["offsets"] = offsets()
		}
		if step == 80 {
			require.NoError(t, cache.Truncate(20))
			for _, name := range caches {
				full["past"+name] = head(full["past"+name], 20)
			}
		}
		for name, x := range in {
			full[name] = x
		}
		want, err := plain.Run(t.Context(), full)
		require.NoError(t, err)
		got, err := s.Run(t.Context(), in)
		require.NoError(t, err)
		require.Len(t, got, 1)
		backendtest.Agree(t, fmt.Sprint("step ", step), got["y"], want["y"], 1e-4, 1e-4)
		if cut {
			profiled(t, s.Profile())
		}
		for _, name := range caches {
			full["past"+name] = want["present"+name].Clone()
		}
	}
}

// head is the first n positions of a cache [1,heads,n,size].
func head(x *tensor.Tensor, n int) *tensor.Tensor {
	heads, length, size := x.Shape()[1], x.Shape()[2], x.Shape()[3]
	y := tensor.New(tensor.F32, 1, heads, n, size)
	for h := range heads {
		copy(tensor.Of[float32](y)[h*n*size:][:n*size], tensor.Of[float32](x)[h*length*size:])
	}
	return y
}
