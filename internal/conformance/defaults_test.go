package conformance

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/lower"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

//go:embed testdata/defaults.txt
var defaultsText string

// A default is what attributes of an operator are in a version if a node leaves them out.
type defaults struct {
	since      int
	attributes []*onnxpb.AttributeProto
}

func readDefaults(t *testing.T) map[string][]defaults {
	all := map[string][]defaults{}
	for line := range strings.Lines(defaultsText) {
		fields := strings.Fields(line)
		if fields[0] == "#" {
			continue
		}
		since, err := strconv.Atoi(fields[2])
		require.NoError(t, err)
		d := defaults{since: since}
		for _, f := range fields[3:] {
			name, text, _ := strings.Cut(f, "=")
			d.attributes = append(d.attributes, attributeOf(t, name, text))
		}
		all[fields[0]+" "+fields[1]] = append(all[fields[0]+" "+fields[1]], d)
	}
	return all
}

// attributeOf reads an attribute: JSON, where a number with a point or an exponent is a float.
func attributeOf(t *testing.T, name, text string) *onnxpb.AttributeProto {
	a := &onnxpb.AttributeProto{Name: name}
	var list []json.RawMessage
	var s string
	switch {
	case json.Unmarshal([]byte(text), &list) == nil:
		for _, x := range list {
			one := attributeOf(t, name, string(x))
			a.Type = one.Type + (onnxpb.AttributeProto_INTS - onnxpb.AttributeProto_INT)
			switch one.Type {
			case onnxpb.AttributeProto_INT:
				a.Ints = append(a.Ints, one.I)
			case onnxpb.AttributeProto_STRING:
				a.Strings = append(a.Strings, one.S)
			}
		}
	case json.Unmarshal([]byte(text), &s) == nil:
		a.Type, a.S = onnxpb.AttributeProto_STRING, []byte(s)
	case strings.ContainsAny(text, ".e"):
		x, err := strconv.ParseFloat(text, 32)
		require.NoError(t, err)
		a.Type, a.F = onnxpb.AttributeProto_FLOAT, float32(x)
	default:
		n, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		a.Type, a.I = onnxpb.AttributeProto_INT, n
	}
	return a
}

// whole is the text of a graph, with sums of what its large constants hold.
func whole(g *ir.Graph) string {
	return g.Encode(func(v *ir.Value) int { return int(crc32.ChecksumIEEE(v.Const.Bytes())) })
}

// strange are defaults of ONNX that no node can give.
var strange = map[string]string{
	"RNN activations": "two functions, of which a network of one direction takes one",
	"GRU direction":   "foward, in opset 7",
	"GlobalLpPool p":  "a float, in opset 1",
	"LpPool p":        "a float, in opset 1",
}

// TestDefaults: a node that leaves an attribute out is lowered as one that gives the default, or computes the same, in every version that
// has it.
func TestDefaults(t *testing.T) {
	all := readDefaults(t)
	compared := map[string]bool{}
	models, inputs := allModels(t)
	for i, m := range models {
		n := m.Graph.Node[0]
		opset := m.OpsetImport[slices.IndexFunc(m.OpsetImport,
			func(o *onnxpb.OperatorSetIdProto) bool { return o.GetDomain() == n.GetDomain() })]
		given := n.Attribute
		versions := all[cmp.Or(n.GetDomain(), "ai.onnx")+" "+n.GetOpType()]
		for k, d := range versions {
			if opset.Version = int64(d.since); n.GetDomain() == "" {
				opset.Version = max(opset.Version, lower.MinOpset)
			}
			if k+1 < len(versions) && opset.Version >= int64(versions[k+1].since) {
				continue
			}
			signature, _ := lower.SignatureOf(n.GetDomain(), n.GetOpType(), int(opset.Version))
			for _, a := range d.attributes {
				key := n.GetOpType() + " " + a.GetName()
				n.Attribute = slices.DeleteFunc(slices.Clone(given),
					func(b *onnxpb.AttributeProto) bool { return b.GetName() == a.GetName() })
				without, err := lower.Model(m)
				if err != nil || strange[key] != "" || !signature.Has(a.GetName()) {
					continue
				}
				compared[key] = true
				n.Attribute = append(n.Attribute, a)
				what := fmt.Sprintf("%s of opset %d: %v", n.GetOpType(), opset.Version, a)
				with, err := lower.Model(m)
				switch {
				case err != nil:
					t.Error(what, err)
				case strings.Contains(with.String(), "attrs={"): // an operator that keeps them as they are
					alike(t, what, without, with, inputs[i])
				default:
					require.Equal(t, whole(without), whole(with), what)
				}
			}
		}
	}
	require.Greater(t, len(compared), 300)
}

// alike holds that two graphs compute the same.
func alike(t *testing.T, what string, a, b *ir.Graph, inputs []*tensor.Tensor) {
	want, err := ir.Interpret(a, inputs)
	require.NoError(t, err, what)
	got, err := ir.Interpret(b, inputs)
	require.NoError(t, err, what)
	for i := range want {
		if err := compare(got[i], want[i]); err != nil {
			t.Errorf("%s: result %d %v", what, i, err)
		}
	}
}
