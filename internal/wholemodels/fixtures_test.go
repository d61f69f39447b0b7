package wholemodels

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/internal/fixtures"
	"github.com/rlxc/rlxc/tensor"
)

// levels are the two ends of what Compile does.
var levels = []rlxc.Level{rlxc.O0, rlxc.O2}

var levelNames = map[rlxc.Level]string{rlxc.O0: "0", rlxc.O2: "2"}

// open opens a fixture.
func open(t *testing.T, name string) (*rlxc.Model, fs.FS) {
	m, err := rlxc.Open(fixtures.Model(t, name))
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m, os.DirFS(fixtures.Dir(t, name))
}

func namesOf(infos []rlxc.ValueInfo) []string {
	names := make([]string, len(infos))
	for i, v := range infos {
		names[i] = v.Name
	}
	return names
}

// recorded compiles a model, runs it on the inputs recorded beside it, and calls check with each output.
func recorded(t *testing.T, m *rlxc.Model, folder fs.FS, level rlxc.Level,
	check func(set, output string, got, want *tensor.Tensor)) *rlxc.Program {
	return recordedWith(t, m, folder, rlxc.CompileOptions{Level: level}, check)
}

// recordedWith is recorded with other options.
func recordedWith(t *testing.T, m *rlxc.Model, folder fs.FS, o rlxc.CompileOptions,
	check func(set, output string, got, want *tensor.Tensor)) *rlxc.Program {
	o.Verify = true
	p, err := m.Compile(context.Background(), o)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	s, err := p.NewSession()
	require.NoError(t, err)
	defer s.Close()
	run := func(in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
		return s.Run(context.Background(), in)
	}
	fixtures.Runs(t, folder, namesOf(m.Inputs()), namesOf(m.Outputs()), run, check)
	return p
}

func TestFixtures(t *testing.T) {
	t.Chdir(root)
	for _, name := range []string{"bert-tiny", "bert-tiny-opset11", "bert-tiny-opset14", "bert-tiny-dynamo", "bert-tiny-static",
		"bert-tiny-external",
		"bert-tiny-ner", "bert-tiny-qa", "bert-tiny-mlm", "distilbert", "roberta", "minilm"} {
		for _, level := range levels {
			t.Run(fmt.Sprintf("%s/%s", name, levelNames[level]), func(t *testing.T) {
				m, folder := open(t, name)
				recorded(t, m, folder, level, requireClose(t))
			})
		}
	}
}

// requireClose holds an output to what onnxruntime computes.
func requireClose(t *testing.T) func(set, output string, got, want *tensor.Tensor) {
	return func(set, output string, got, want *tensor.Tensor) {
		if want.DType() == tensor.String {
			require.Equal(t, want.Strings(), got.Strings(), "%s %s", set, output)
			return
		}
		for i := range want.Len() {
			g, w := got.Float64(i), want.Float64(i)
			if !(math.Abs(g-w) <= 1e-5+1e-4*math.Abs(w)) {
				t.Fatalf("%s %s[%d] = %v, onnxruntime computes %v", set, output, i, g, w)
			}
		}
	}
}
