package conformance

import (
	"archive/zip"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rlxc/rlxc"
	_ "github.com/rlxc/rlxc/backend/cuda"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/drivertest"
	"github.com/rlxc/rlxc/internal/inside"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

const (
	backendsFile  = "../../lower/backends.txt"
	operatorsFile = "../../docs/operators.md"
)

// contribCases are the models of com.microsoft's operators, sorted by name.
func contribCases(t *testing.T) (cases []*testCase) {
	z, err := zip.OpenReader("../../testdata/contrib.zip")
	require.NoError(t, err)
	defer z.Close()
	byName := map[string]*testCase{}
	for _, f := range z.File {
		r, err := f.Open()
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		name := path.Dir(f.Name)
		c := byName[name]
		if c == nil {
			c = &testCase{name: name, files: map[string][]byte{}}
			byName[name] = c
		}
		if base := path.Base(f.Name); base == "model.onnx" {
			c.model = data
		} else {
			c.files[base] = data
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		cases = append(cases, byName[name])
	}
	return cases
}

// allModels are the models of one node that show how operators run: ONNX's tests, those of ai.onnx.ml, and those of com.microsoft. All
// operands but the first become constants, as weights, sizes and the like are in a user's model; inputs are the others, by model.
func allModels(t *testing.T) (models []*onnxpb.ModelProto, inputs [][]*tensor.Tensor) {
	cases, err := loadCases()
	require.NoError(t, err)
	classical, err := readCases(mlArchive)
	require.NoError(t, err)
	for _, c := range slices.Concat(cases, classical, contribCases(t)) {
		m := new(onnxpb.ModelProto)
		require.NoError(t, proto.Unmarshal(c.model, m))
		if len(m.Graph.Node) != 1 {
			continue
		}
		list := m.Graph.Input
		values, err := c.values("input", list)
		require.NoError(t, err, c.name)
		m.Graph.Input = list[:min(len(list), 1)]
		kept := values[:min(len(list), 1)]
		for i, v := range list[len(m.Graph.Input):] {
			if v.GetType().GetTensorType() == nil {
				m.Graph.Input, kept = append(m.Graph.Input, v), append(kept, values[1+i])
			} else {
				m.Graph.Initializer = append(m.Graph.Initializer, onnx.FromTensor(v.GetName(), values[1+i]))
			}
		}
		models, inputs = append(models, m), append(inputs, kept)
	}
	return models, inputs
}

func openDevice(name string) (backend.Device, error) {
	return backend.Open(backend.Options{Backend: name})
}

// runsBy compiles models of one node and says of each operator whether the backend's kernels run it, or the host.
func runsBy(t *testing.T, name string) map[[2]string]string {
	device, err := openDevice(name)
	require.NoError(t, err)
	defer device.Close()
	seen := map[[2]string][2]bool{} // by kernels, by the host
	models, _ := allModels(t)
	for _, model := range models {
		key := [2]string{cmp.Or(model.Graph.Node[0].GetDomain(), "ai.onnx"), model.Graph.Node[0].GetOpType()}
		m, err := rlxc.FromProto(model, "test")
		if err != nil {
			continue
		}
		if p, err := m.Compile(context.Background(), rlxc.CompileOptions{Threads: 1}); err == nil {
			s := seen[key]
			host := slices.ContainsFunc(inside.Program(p).Graph().Nodes,
				func(n *ir.Node) bool { return device.Target().Where(n) == target.OnHost })
			s[0], s[1] = s[0] || !host, s[1] || host
			seen[key] = s
			p.Close()
		}
		m.Close()
	}
	out := map[[2]string]string{}
	for key, s := range seen {
		out[key] = map[[2]bool]string{{true, false}: "kernels", {false, true}: "host", {true, true}: "kernels, host"}[s]
	}
	return out
}

// TestBackendsOfOperators keeps the table that lower has of the backends fresh. Where wgpu has no library, its column stays; what cuda
// has kernels for is asked on a driver that computes nothing.
func TestBackendsOfOperators(t *testing.T) {
	drivertest.New(t)
	columns := append(slices.DeleteFunc(slices.Clone(backends), func(name string) bool { return name == "cuda" }), "cuda")
	listed := map[[2]string]map[string]string{}
	for _, op := range lower.Operators() {
		listed[[2]string{op.Domain, op.Name}] = maps.Clone(op.Backends)
	}
	fresh := map[[2]string]map[string]string{}
	for key, on := range listed {
		fresh[key] = map[string]string{}
		maps.Copy(fresh[key], on)
	}
	for _, name := range columns {
		found := runsBy(t, name)
		for key := range fresh {
			delete(fresh[key], name)
			if what, ok := found[key]; ok {
				fresh[key][name] = what
			}
		}
	}
	if *update {
		var lines []string
		for key, on := range fresh {
			line := key[0] + " " + key[1]
			for _, name := range slices.Sorted(maps.Keys(on)) {
				line += " | " + name + ": " + on[name]
			}
			if len(on) > 0 {
				lines = append(lines, line+"\n")
			}
		}
		slices.Sort(lines)
		header := "# How the node tests of an operator run on a backend. Written by: go test ./internal/conformance -update\n"
		require.NoError(t, os.WriteFile(backendsFile, []byte(header+strings.Join(lines, "")), 0o644))
		return
	}
	for key, on := range fresh {
		require.Equal(t, len(on), len(listed[key]), "%v: run go test ./internal/conformance -update", key)
		for name, what := range on {
			require.Equal(t, what, listed[key][name], "%v: run go test ./internal/conformance -update", key)
		}
	}
}

func operatorsText() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Operators

The operators that rlxc supports, for models of opsets %d to %d of `+"`ai.onnx`"+`. The last columns show what runs an operator in
a user's model, where all operands but the first are constants: the backend's kernels, the host, or either, depending on
attributes and types. A column is empty if the operator only controls what runs, or has no test. "Since" lists the versions of
the operator set that define the operator's meaning; each applies up to the next. "Types" are those that ONNX allows for the
first operand in the newest version (integers: all of 8 to 64 bits; floats: float, float16, double, bfloat16; float8: its four
kinds). A type that is not implemented causes an error that names it.

`+"`rlxc inspect MODEL`"+` lists the operators of a model and which are supported, and `+"`rlxc inspect --ops`"+` prints this page.
`+"`go test ./internal/conformance -update`"+`, run twice, writes it.
`, lower.MinOpset, lower.MaxOpset)
	ops := lower.Operators()
	for i := 0; i < len(ops); {
		first := ops[i]
		if i == 0 || ops[i-1].Domain != first.Domain {
			fmt.Fprintf(&b, "\n## %s\n\n| operator | since | types | cpu | wgpu | cuda |\n|---|---|---|---|---|---|\n", first.Domain)
		}
		var since []string
		last := first
		for ; i < len(ops) && ops[i].Domain == first.Domain && ops[i].Name == first.Name; i++ {
			since, last = append(since, fmt.Sprint(ops[i].Since)), ops[i]
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", first.Name, strings.Join(since, ", "), lower.ShortTypes(last.Types),
			first.Backends["cpu"], first.Backends["wgpu"],
			first.Backends["cuda"])
	}
	why := lower.LeftOut()
	b.WriteString("\n## Not supported\n\nOf ai.onnx's operators, and of the operators that onnxruntime's CPU provider adds. A custom " +
		"operator can replace any of them.\n\n| operator | why |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(why)) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, why[name])
	}
	return b.String()
}

func TestOperatorsDocument(t *testing.T) {
	text := operatorsText()
	if *update {
		require.NoError(t, os.WriteFile(operatorsFile, []byte(text), 0o644))
	}
	have, err := os.ReadFile(operatorsFile)
	require.NoError(t, err)
	require.Equal(t, text, string(have), "run: go test ./internal/conformance -update, twice")
}
