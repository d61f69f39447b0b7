package rlxc

import (
	"archive/zip"
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/planner"
)

// exportedReports returns plans of all models of testdata/exports, by name, at the sizes of their recorded inputs.
func exportedReports(t *testing.T, o CompileOptions) map[string]*Report {
	files, err := filepath.Glob("testdata/exports/*.zip")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	reports := map[string]*Report{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".zip")
		m := exported(t, name)
		p, err := m.Compile(context.Background(), o)
		require.NoError(t, err, name)
		t.Cleanup(func() { p.Close() })
		reports[name], err = p.Plan(recordedSizes(t, m, file))
		require.NoError(t, err, name)
	}
	return reports
}

// recordedSizes returns the sizes of the dimensions of a model in the first inputs that its archive records.
func recordedSizes(t *testing.T, m *Model, archive string) map[string]int {
	z, err := zip.OpenReader(archive)
	require.NoError(t, err)
	defer z.Close()
	sizes := map[string]int{}
	for i, input := range m.Inputs() {
		data, err := fs.ReadFile(z, fmt.Sprintf("test_data_set_0/input_%d.pb", i))
		require.NoError(t, err)
		var x onnxpb.TensorProto
		require.NoError(t, proto.Unmarshal(data, &x))
		for axis, dim := range input.Shape {
			if dim = strings.Trim(dim, `"`); slices.Contains(m.Dims(), dim) {
				sizes[dim] = int(x.Dims[axis])
			}
		}
	}
	return sizes
}

// TestWeightsOfModelsShareASegment: for every model, the plan with its weights in a shared segment passes the check, whether the segment is
// the weights alone or the arena of a forward plan with the weights.
func TestWeightsOfModelsShareASegment(t *testing.T) {
	for name, r := range exportedReports(t, CompileOptions{CPU: "generic", Threads: 1}) {
		t.Run(name, func(t *testing.T) {
			layout, err := ShareWeights(r)
			require.NoError(t, err)
			again := *r.Plan
			require.NoError(t, layout.Apply(r.Problem, &again))
			require.NoError(t, planner.Check(r.Problem, &again))

			forward, err := planner.Solve(r.Problem, planner.Inference())
			require.NoError(t, err)
			layout, err = planner.FromForward(r.Problem, forward)
			require.NoError(t, err)
			backward, err := planner.Solve(r.Problem, planner.BackwardActivationsOnly())
			require.NoError(t, err)
			require.NoError(t, layout.Apply(r.Problem, backward))
			require.NoError(t, planner.Check(r.Problem, backward))
		})
	}
}

// TestShareWeightsOfNothing: weights of no reports are an error.
func TestShareWeightsOfNothing(t *testing.T) {
	_, err := ShareWeights()
	require.ErrorIs(t, err, ErrInput)
}

// TestViewsOfModelsAreInTheirBuffers: the report of every model passes the check, with the views that it shows. Queries, keys and values of
// a packed product are views of many pieces.
func TestViewsOfModelsAreInTheirBuffers(t *testing.T) {
	interleaved := 0
	for name, r := range exportedReports(t, CompileOptions{CPU: "generic", Threads: 1}) {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, planner.Check(r.Problem, r.Plan))
			for _, v := range r.Problem.Views {
				if len(v.Strides) > 0 {
					interleaved++
				}
			}
		})
	}
	require.Positive(t, interleaved)
}

// TestOrdersOfModels: the bound of all orders is at most the arena of each order that is known, and most models are at their optimum. The
// log counts them.
func TestOrdersOfModels(t *testing.T) {
	best, proved, models := 0, 0, 0
	for name, r := range exportedReports(t, CompileOptions{CPU: "generic", Threads: 1}) {
		order, err := r.OptimalOrder(200_000)
		require.NoError(t, err, name)
		require.LessOrEqual(t, order.Bound, order.Arena, name)
		models++
		if order.Bound == order.Arena {
			proved++
		}
		if order.Bound == order.Today {
			best++
		}
		t.Logf("%s: %+v", name, *order)
	}
	t.Logf("%d of %d models are at their optimum, the optimum of %d is known", best, models, proved)
	require.Greater(t, best, models/2)
}
