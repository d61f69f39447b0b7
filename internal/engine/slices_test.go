package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/artifact"
	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"

	_ "github.com/rlxc/rlxc/backend/cpu"
)

// batchTests are graphs whose rows are independent of each other, and for each rule one where they are not.
var batchTests = []struct{ graph, fails string }{
	{`(%0 "x": f32[b,6,4]) { %1 = transpose(%0) {perm=[0,2,1]} %2 = reshape(%1) {shape=[b*4,6]} %3 = tanh(%2)
		%4 = reshape(%3) {shape=[b,24]} return %4 }`, ""},
	{`(%0 "x": f32[b,6,4]) { %1 = reshape(%0) {shape=[b*6,4]} return %1 }`, ""},
	{`(%0 "x": f32[b,6,4]) { %1 = transpose(%0) {perm=[1,0,2]} %2 = tanh(%1) %3 = transpose(%2) {perm=[1,0,2]} return %3 }`, "independent"},
	{`(%0 "x": f32[b,6]) { %1 = reshape(%0) {shape=[6,b]} %2 = reshape(%1) {shape=[b,6]} return %2 }`, "independent"},
	{`(%0 "x": f32[b,6], %1 "s": f32[6]) { %2 = add(%0, %1) return %2 }`, ""},
	{`(%0 "x": f32[b,6], %1 "s": f32[1,6]) { %2 = add(%0, %1) return %2 }`, ""},
	{`(%0 "x": f32[b,6], %1 "s": f32[n,6]) { %2 = add(%0, %1) return %2 }`, "independent"},
	{`(%0 "x": f32[b,6], %1 "s": f32[6,b]) { %2 = tanh(%0) return %2 }`, "on another axis"},
	{`(%0 "x": f32[b,b]) { %1 = tanh(%0) return %1 }`, "independent"},
	{`(%0 "x": f32[b]) { %1 = reshape(%0) {shape=[b,1]} %2 = add(%0, %1) return %2 }`, "independent"},
	{`(%0 "x": f32[b,6]) { %1 = slice(%0) {starts=[0,2],sizes=[b,3],steps=[1,1]} return %1 }`, ""},
	{`(%0 "x": f32[b,6]) { %1 = slice(%0) {starts=[b-1,0],sizes=[b,6],steps=[-1,1]} return %1 }`, "independent"},
	{`(%0 "x": f32[b,6]) { %1 = slice(%0) {starts=[0,b-1],sizes=[b,1],steps=[1,1]} return %1 }`, "independent"},
	{`(%0 "x": f32[b,6]) { const %1: f32[1,6] = data %2 = expand(%1) {shape=[b,6]} %3 = concat(%0, %2) {axis=1} return %3 }`, ""},
	{`(%0 "x": f32[b,6]) { %3 = concat(%0, %0) {axis=0} %4 = reshape(%3) {shape=[b,12]} return %4 }`, "independent"},
	{`(%0 "x": f32[b,6]) { %1 = range() {step=1, len=b, dtype=i64} %2: f32[b] = cast(%1) {to=f32} %3 = reshape(%2) {shape=[b,1]}
		%4 = add(%0, %3) return %4 }`,
		"computes values from all rows"},
	{`(%0 "x": f32[b,6]) { %1 = pad(%0) {before=[0,1], after=[0,2]} return %1 }`, ""},
	{`(%0 "x": f32[b,6]) { %1 = pad(%0) {before=[1,0], after=[-1,0]} return %1 }`, "independent"},
	{`(%0 "x": f32[b,5,6]) { %1 = trilu(%0) return %1 }`, ""},
	{`(%0 "x": f32[b,6]) { %1 = trilu(%0) return %1 }`, "independent"},
	{`(%0 "i": i64[b,6]) { const %1: f32[9,3] = data %2 = gather(%1, %0) {axis=0} return %2 }`, ""},
	{`(%0 "x": f32[b,6], %1 "i": i64[4]) { %2 = gather(%0, %1) {axis=1} return %2 }`, ""},
	{`(%0 "x": f32[b,6], %1 "i": i64[b]) { %2 = gather(%0, %1) {axis=0} return %2 }`, "independent"},
	{`(%0 "x": f32[b,6]) { %1 = reduce_sum(%0) {axes=[1]} return %1 }`, ""},
	{`(%0 "x": f32[b,6]) { %1 = reduce_sum(%0) {axes=[0], keepdims=true} %2 = sub(%0, %1) return %2 }`, "independent"},
	{`(%0 "x": f32[b,6]) { %1 = argmax(%0) {axis=1} return %1 }`, ""},
	{`(%0 "x": f32[b,6]) { %1 = argmax(%0) {axis=0,keepdims=true} %2: f32[1,6] = cast(%1) {to=f32}
		%3 = add(%0, %2) return %3 }`, "independent"},
	{`(%0 "x": f32[b,6]) { %1 = softmax(%0) {axis=1} return %1 }`, ""},
	{`(%0 "x": f32[b,6]) { %1 = softmax(%0) {axis=0} return %1 }`, "independent"},
	{`(%0 "x": f32[b,6]) { %1 = cumsum(%0) {axis=1} return %1 }`, ""},
	{`(%0 "x": f32[b,6]) { %1 = cumsum(%0) {axis=0} return %1 }`, "independent"},
	{`(%0 "x": f32[b,6]) { const %1: f32[6,4] = data const %2: f32[4] = data %3 = matmul(%0, %1, %2) {act=relu} return %3 }`, ""},
	{`(%0 "x": f32[b,5,6]) { %1 = matmul(%0, %0) {transb=true} %2 = matmul(%1, %0, _, %0) return %2 }`, ""},
	{`(%0 "x": f32[b,5,6]) { const %1: f32[5,5] = data %2 = matmul(%1, %0) return %2 }`, ""},
	{`(%0 "x": f32[b,6]) { const %1: f32[4,6] = data %2 = matmul(%0, %0) {transb=true} %3 = matmul(%2, %0) return %3 }`, "independent"},
	{`(%0 "x": f32[b,5,6]) { const %1: f32[6] = data %2 = layernorm(%0, %1, %1, %0) {axes=1} return %2 }`, ""},
	{`(%0 "x": f32[b,6]) { %1 = layernorm(%0) {axes=2} return %1 }`, "independent"},
	{`(%0 "x": f32[b,7,2,8], %1 "m": f32[b,1,1,7]) { %2 = attention(%0, %0, %0, %1) {scale=0.5} return %2 }`, ""},
	{`(%0 "x": f32[b,7,2,8], %1 "m": f32[7,7]) { %2 = attention(%0, %0, %0, %1) {scale=0.5} return %2 }`, ""},
	{`(%0 "x": f32[b,7,2,8], %1 "k": f32[n,7,2,8]) { %2 = attention(%0, %1, %1) {scale=0.5} return %2 }`, "independent"},
	{`(%0 "x": f32[b,3,2,8]) { const %1: f32[1,3,4] = data %2 = rotary(%0, %1, %1) return %2 }`, ""},
	{`(%0 "i": i64[b,6]) { const %1: f32[9,3] = data const %2: f32[6,3] = data %3 = embedding(_, _, %1, %0, %2, _) return %3 }`, ""},
	{`(%0 "x": f32[b,8,8,3]) { const %1: f32[3,3,3,4] = data %2 = conv(%0, %1) {kernel=[3,3],strides=[1,1],dilations=[1,1],pads=[1,1,1,1],
		auto_pad="NOTSET",group=1} %3 = onnx.MaxPool(%2) {kernel=[2,2], strides=[2,2], dilations=[1,1], pads=[0,0,0,0],
		auto_pad="NOTSET", results=1} %4 = onnx.Resize(%3) {shape=[b,8,8,4], scales=[1,2,2,1], mode="nearest",
		coordinates="asymmetric", nearest="floor"} return %4 }`, ""},
	{`(%0 "x": f32[b,8,8]) { %4 = onnx.Resize(%0) {shape=[2*b,8,8], scales=[2,1,1], mode="nearest", coordinates="asymmetric",
		nearest="floor"} return %4 }`, "independent"},
	{`(%0 "i": i64[b,6]) { const %1: i8[9,3] = data const %2: f32[3] = data const %3: f32[6,3] = data
		%4 = qembedding(_, _, %1, %0, %2, _, %3, _, _, _) return %4 }`, ""},
	{`(%0 "x": f32[b,5,32], %1 "r": f32[b,5,8]) { const %2: u8[8,1,16] = data const %3: f32[8] = data
		%4 = matmul_nbits(%0, %2, %3, _, _, _, %1) {k=32, n=8, bits=4, block=32, int8=true} return %4 }`, ""},
	{`(%0 "x": u8[b,5,32]) { const %1: i8[32,8] = data const %2: f32[] = data const %3: f32[8] = data const %4: u8[] = data
		%5 = onnx.QMatMul(%0, %1, %4, _, %2, %3) {act=relu} return %5 }`, ""},
	{`(%0 "x": u8[b,5,8]) { const %1: f32[] = data %2 = onnx.QMatMul(%0, %0, _, _, %1, %1) {transb=true} return %2 }`, ""},
	{`(%0 "x": u8[b,8]) { const %1: f32[] = data %2 = onnx.QMatMul(%0, %0, _, _, %1, %1) {transb=true} %3 = matmul(%2, %2) return %3 }`,
		"independent"},
	{`(%0 "x": f32[b,5,32]) { const %1: i8[32,8] = data const %2: f32[8] = data %3 = onnx.QMatMul(%0, %1, _, _, _, %2) return %3 }`,
		"scale of its quantised values follows from all rows"},
	{`(%0 "x": f32[b,5]) { %1, %2, %3 = onnx.DynamicQuantizeLinear(%0) return %1 }`, "scale of its quantised values follows from all rows"},
	{`(%0 "x": f32[b,5]) { const %1: f32[] = [0.5] const %2: u8[] = [7] %3 = quantize(%0, %1, %2) {to=u8}
		%4 = dequantize(%3, %1, %2) {to=f32} return %4 }`, ""},
	{`(%0 "x": f32[b,5]) { const %1: f32[5] = [1,2,3,4,5] %2 = quantize(%0, %1) {to=i8, axis=1} return %2 }`, ""},
	{`(%0 "x": f32[b,5], %1 "s": f32[b]) { %2 = quantize(%0, %1) {to=i8} return %2 }`, "independent"},
	{`(%0 "x": f32[b,6]) { const %1: f32[6] = data const %2: f32[] = [0.5] const %3: u8[] = [7]
		%4, %5 = qlayernorm(%0, %1, _, %0, _, _, %2, %3) {axes=1, float=true} %6 = reduce_max(%5) {axes=[1]}
		return %6 }`, ""},
	{`(%0 "x": u8[b,7,2,8], %1 "m": f32[b,1,1,7]) { const %2: f32[] = [0.02] const %3: u8[] = [7]
		%4 = qattention(%0, %0, %0, %1, %2, %3, %2, %3, %2, %3, _, _, %2, %3) return %4 }`, ""},
	{`(%0 "x": f32[b,6,4]) { const %1: f32[2,4,3] = data %2 = tile(%1) {repeats=[b,1,1]} %3 = reshape(%0) {shape=[2*b,3,4]}
		%4 = matmul(%3, %2) return %4 }`, ""},
	{`(%0 "x": f32[b,6,4]) { const %1: f32[2,4,3] = data %2 = tile(%1) {repeats=[1,b,1]} return %2 }`, "computes values from all rows"},
	{`(%0 "x": f32[b,6]) { const %1: i64[1,3] = [5,0,2] %2 = expand(%1) {shape=[b,3]}
		%3 = gather_elements(%0, %2) {axis=1} return %3 }`, ""},
	{`(%0 "x": f32[b,6]) { const %1: i64[1,6] = data %2 = expand(%1) {shape=[b,6]}
		%3 = gather_elements(%0, %2) return %3 }`, "independent"},
	{`(%0 "x": f32[b,6,4], %1 "i": i64[b,1]) { %2 = range() {step=1, len=b, dtype=i64} %3 = reshape(%2) {shape=[b,1]}
		%4 = concat(%3, %1) {axis=1} %5 = gather_nd(%0, %4) return %5 }`, ""},
	{`(%0 "x": f32[b,6,4], %1 "i": i64[b,1]) { %2 = range() {start=1, step=1, len=b, dtype=i64} %3 = reshape(%2) {shape=[b,1]}
		%4 = concat(%3, %1) {axis=1} %5 = gather_nd(%0, %4) return %5 }`, "computes values from all rows"},
	{`(%0 "x": f32[b,6,4], %1 "i": i64[b,1]) { %2 = range() {step=1, len=b, dtype=i64} %3 = reshape(%2) {shape=[b,1]}
		%4 = concat(%1, %3) {axis=1} %5 = gather_nd(%0, %4) return %5 }`, "independent"},
	{`(%0 "x": i64[b,1]) { %2 = range() {step=1, len=b, dtype=i64} %3 = reshape(%2) {shape=[b,1]}
		%4 = add(%0, %3) return %4 }`, "independent"},
	{`(%0 "x": i64[b,1]) { %2 = range() {step=1, len=b, dtype=i64} return %2 }`, "no axis 0 of size"},
	{`(%0 "x": f32[b,6]) { %1, %2 = onnx.TopK(%0) {k=2, axis=1} return %1 }`, "independent"}, // no rule
	{`(%0 "x": f32[b,6], %1 "y": f32[6]) { %2 = tanh(%0) %3 = tanh(%1) return %2, %3 }`, "has no axis 0 of size"},
	{`(%0 "x": f32[3,6]) { %1 = tanh(%0) return %1 }`, "no input has an axis 0 of free size"},
}

// graphFile is a graph as the source of a program.
type graphFile struct{ Source }

func (graphFile) Name() string             { return "graph" }
func (graphFile) Compiled() *artifact.Info { return nil }
func (graphFile) Evict()                   {}
func (graphFile) EvictPart([]byte) bool    { return false }
func (graphFile) Stamps() []files.Stamp    { return nil }
func (graphFile) Retain()                  {}
func (graphFile) Close() error             { return nil }

// TestBatches finds which graphs take rows alone. Those that do return the same bits in slices as at once, under limits as low as
// can be met.
func TestBatches(t *testing.T) {
	for i, c := range batchTests {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			parse := func() (*ir.Graph, error) {
				g, err := ir.Parse(`graph "" ` + c.graph)
				require.NoError(t, err)
				for i := range g.Outputs {
					g.OutputNames = append(g.OutputNames, fmt.Sprint(i))
				}
				return g, err
			}
			g, err := parse()
			require.NoError(t, err)
			_, err = findBatch(g)
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			const rows = 7
			in := map[string]*tensor.Tensor{}
			for _, v := range g.Inputs {
				bound, err := ir.MapType(v.Type, ir.Binding{"b": rows}.Number)
				require.NoError(t, err)
				x := tensor.New(bound.DType, bound.Sizes()...)
				for i := range x.Len() {
					if x.DType().IsFloat() {
						x.SetFloat64(i, float64(i*i%37)/8-2)
					} else {
						x.SetInt64(i, int64(i*i%4))
					}
				}
				in[v.Name] = x
			}
			// run runs twice, the second time knowing how; rows are those of a slice, 0 for all at once.
			var refused error
			run := func(limit int64) (got map[string][]byte, rows int, arena int64) {
				p, err := Compile(t.Context(), graphFile{}, parse, options.Compile{MemoryLimit: limit, Threads: 1, Verify: true})
				require.NoError(t, err)
				defer p.Close()
				s, err := p.NewSession()
				require.NoError(t, err)
				defer s.Close()
				for range 2 {
					out, err := s.Run(t.Context(), in)
					if refused = err; errors.Is(err, ErrMemory) {
						return nil, 0, 0
					}
					require.NoError(t, err)
					got = map[string][]byte{}
					for name, x := range out {
						got[name] = slices.Clone(x.Bytes())
					}
				}
				return got, s.mainFrame().sliced.rows, s.MemoryBytes()
			}
			want, whole, arena := run(1 << 30)
			require.Zero(t, whole)
			seen := map[int]bool{}
			for limit := arena - 64; limit > 0; limit -= 64 {
				got, rows, arena := run(limit)
				if got == nil {
					break
				}
				require.Equal(t, want, got)
				require.Less(t, arena, limit)
				seen[rows] = true
			}
			var least int64
			_, says, _ := strings.Cut(refused.Error(), "; the smallest slice needs ")
			_, err = fmt.Sscanf(says, "%d with the results", &least)
			require.NoError(t, err, refused)
			got, _, _ := run(least)
			require.Equal(t, want, got)
			got, _, _ = run(least - 1)
			require.Nil(t, got)
			require.NotEmpty(t, seen, "no limit below that of all rows is met")
			require.NotContains(t, seen, 0)
		})
	}
}

// TestNoSlicesOfDeviceTensors: a session that holds device tensors says that they prevent slices. Without them, the same run takes some.
func TestNoSlicesOfDeviceTensors(t *testing.T) {
	c := `(%0 "x": f32[b,600]) { %1 = exp(%0) %2: f32[b] = reduce_sum(%1) {axes=[1]} return %2 as "y" }`
	p, err := Compile(t.Context(), text(c), text(c).Graph, options.Compile{MemoryLimit: 8 << 10, Threads: 1, Verify: true})
	require.NoError(t, err)
	defer p.Close()
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	in := map[string]*tensor.Tensor{"x": numbers(1, 9, 600)}
	_, err = s.Run(t.Context(), in)
	require.NoError(t, err)
	k, err := p.NewDeviceTensor(tensor.New(tensor.F32, 9))
	require.NoError(t, err)
	defer k.Close()
	require.NoError(t, s.BindOutput("y", k))
	in["x"] = numbers(1, 8, 600)
	_, err = s.Run(t.Context(), in)
	require.ErrorIs(t, err, ErrMemory)
	require.ErrorContains(t, err, "cannot be split into slices: inputs or outputs are device tensors")
}

// TestSlicesKeepTheAlgorithm: the kernel of a product with weights in blocks computes few rows by another algorithm than many. At each
// limit a run in slices returns the bits of the whole batch, or fails.
func TestSlicesKeepTheAlgorithm(t *testing.T) {
	c := `(%0 "x": f32[b,5,32]) { const %1: u8[64,1,16] = data const %2: f32[64] = data
		%3 = matmul_nbits(%0, %1, %2) {k=32, n=64, bits=4, block=32} %4 = reduce_max(%3) {axes=[1,2]} return %4 as "y" }`
	in := map[string]*tensor.Tensor{"x": numbers(1, 24, 5, 32)}
	run := func(limit int64) (y []byte, slices int, err error) {
		p, err := Compile(t.Context(), text(c), text(c).Graph, options.Compile{MemoryLimit: limit, Threads: 1, Verify: true})
		require.NoError(t, err)
		defer p.Close()
		s, err := p.NewSession()
		require.NoError(t, err)
		defer s.Close()
		out, err := s.Run(t.Context(), in)
		if err != nil {
			require.ErrorIs(t, err, ErrMemory)
			return nil, 0, err
		}
		return bytes.Clone(out["y"].Bytes()), s.mainFrame().sliced.count, nil
	}
	want, count, err := run(1 << 30)
	require.NoError(t, err)
	require.Zero(t, count)
	seen := map[int]bool{}
	for limit := int64(40 << 10); limit > 1<<10; limit -= 512 {
		got, count, err := run(limit)
		if err != nil {
			if strings.Contains(err.Error(), "other results") {
				require.ErrorContains(t, err, "its kernel computes few rows by another algorithm")
			}
			continue
		}
		require.Equal(t, want, got, "%d slices", count)
		seen[count] = true
	}
	require.Greater(t, len(seen), 1, "some limit needs slices")
}

// TestFirstSliceIsLargest: slices cover a batch in order, differ by at most one row, and none has more rows than the first.
func TestFirstSliceIsLargest(t *testing.T) {
	for all := 1; all <= 40; all++ {
		for count := 1; count <= all; count++ {
			s := slicing{count: count, rows: (all + count - 1) / count}
			end := 0
			for i := range count {
				lo, hi := s.bounds(i, all)
				require.Equal(t, end, lo, "slice %d of %d of %d rows", i, count, all)
				require.Contains(t, []int{all / count, s.rows}, hi-lo, "slice %d of %d of %d rows", i, count, all)
				if i == 0 {
					require.Equal(t, s.rows, hi, "the first of %d slices of %d rows", count, all)
				}
				end = hi
			}
			require.Equal(t, all, end)
		}
	}
}

// TestSliceCost: slices of a product cost as many reads of its weights, and the time of starting their steps.
func TestSliceCost(t *testing.T) {
	c := `(%0 "x": f32[b,32]) { const %1: f32[32,64] = data %2 = matmul(%0, %1) return %2 as "y" }`
	p, err := Compile(t.Context(), text(c), text(c).Graph, options.Compile{MemoryLimit: 22 << 10, Threads: 1, Verify: true})
	require.NoError(t, err)
	defer p.Close()
	const weights, perRow, flopsPerRow = 32 * 64 * 4, (32 + 64) * 4, 2 * 32 * 64
	step := func(rows, flops, bytes float64) float64 {
		return stepOverhead + math.Hypot(rows*flopsPerRow/flops, (weights+rows*perRow)/bytes)
	}
	dims := map[string]int{"b": 64}
	slice, count, err := p.Slice(dims, ErrMemory)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"b": 16}, slice)
	for _, r := range []Rates{{1e9, 0, 1e9}, {1e9, 0, 1e15}, {1e15, 0, 1e9}, {1e10, 1e15, 1e9}} {
		cost, err := p.SliceCost(dims, r)
		require.NoError(t, err)
		require.EqualValues(t, weights, cost.Weights)
		require.InDelta(t, float64(count)*step(16, r.Float, r.Bytes)/step(64, r.Float, r.Bytes)-1, cost.Slower, 1e-9)
		require.Positive(t, cost.Slower)
	}
	_, err = p.SliceCost(dims, Rates{Float: 1e9})
	require.ErrorIs(t, err, ErrInput)
}
