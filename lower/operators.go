package lower

import (
	"cmp"
	_ "embed"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
)

// An Operator is a row in the table of lowerings: an ONNX operator since an opset version.
type Operator struct {
	Domain string `json:"domain"`
	Name   string `json:"name"`
	Since  int    `json:"since"`
	// Types are the types of the first operand, or of the first result if there are no operands, in the newest version of ONNX that the
	// row covers.
	Types []string `json:"types,omitempty"`
	// Backends is, for "cpu", "wgpu" and "cuda", whether kernels or the host run the operator: "kernels", "host", "kernels, host".
	Backends map[string]string `json:"backends,omitempty"`
}

// leftOut says of operators that are left out for good why, and what to do.
var leftOut = map[string]string{
	"ImageDecoder":              "images are decoded before the model runs",
	"ai.onnx.ml.CastMap":        noMaps,
	"ai.onnx.ml.DictVectorizer": noMaps,

	// What onnxruntime's CPU provider has besides, in its own domain.
	"com.microsoft.BeamSearch":             noSearch,
	"com.microsoft.GreedySearch":           noSearch,
	"com.microsoft.Sampling":               noSearch,
	"com.microsoft.WhisperBeamSearch":      noSearch,
	"com.microsoft.NGramRepeatBlock":       noSearch,
	"com.microsoft.BifurcationDetector":    noSearch,
	"com.microsoft.EngramGate":             noExporter,
	"com.microsoft.NGramHashMapping":       noExporter,
	"com.microsoft.VarlenNGramHashMapping": noExporter,
	"MemcpyFromHost":                       noCopies,
	"MemcpyToHost":                         noCopies,
	"com.microsoft.SparseAttention": "attention over blocks of a sparse pattern has no definition in ONNX; export the " +
		"model with Attention or GroupQueryAttention",
	"com.microsoft.MatMulFpQ4":                   "its layout of 4-bit weights is private to onnxruntime; MatMulNBits replaced it",
	"com.microsoft.SparseToDenseMatMul":          "weights in sparse tensors; store them as dense ones",
	"com.microsoft.AttnLSTM":                     noExporter,
	"com.microsoft.WordConvEmbedding":            noExporter,
	"com.microsoft.ConvTransposeWithDynamicPads": noExporter,
	"com.microsoft.CropAndResize":                noExporter,
	"com.microsoft.MaxpoolWithMask":              noExporter,
	"com.microsoft.MurmurHash3":                  noExporter,
	"com.microsoft.UnfoldTensor":                 noExporter,
	"com.microsoft.DynamicTimeWarping":           noExporter,
	"com.microsoft.Inverse":                      noExporter,
	"com.microsoft.Unique":                       noExporter + "; use ai.onnx's",
	"com.microsoft.SampleOp":                     "it is an example of onnxruntime's",
}

// LeftOut lists operators that will not be supported, each with the reason.
func LeftOut() map[string]string { return maps.Clone(leftOut) }

const (
	noSearch   = "it generates a whole text in one node; run the decoder step by step"
	noCopies   = "onnxruntime puts it between devices when it loads a model; save the model before"
	noExporter = "no exporter writes it, and neither does onnxruntime's optimiser"
)

const noMaps = "values are tensors, sequences and optionals of tensors, not maps"

// Operators lists the operators that Model supports, sorted. A row applies up to the next version of the same operator.
func Operators() []Operator {
	var out []Operator
	for domain, byName := range rowsByName {
		for name, rows := range byName {
			until := math.MaxInt // rows are in descending order
			for _, r := range rows {
				out = append(out, Operator{domain, name, r.since, typesOfFirst(newestSchema(domain, name, until)),
					backendsOf(domain, name)})
				until = r.since - 1
			}
		}
	}
	slices.SortFunc(out, func(a, b Operator) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Since, b.Since))
	})
	return out
}

// newestSchema is the last one up to a version that says what the operator takes.
func newestSchema(domain, name string, version int) *schema {
	s := findSchema(domain, name, version)
	if s != nil && s.deprecated {
		return findSchema(domain, name, s.since-1)
	}
	return s
}

// typesOfFirst lists the types of the first operand or result.
func typesOfFirst(s *schema) []string {
	if s == nil {
		return nil
	}
	formals := append(slices.Clone(s.inputs), s.outputs...)
	if len(formals) == 0 {
		return nil
	}
	return strings.Fields(formals[0].types.text)
}

// backendText is written by go test ./internal/conformance -update: a line an operator, with its domain, its name, and for each backend
// what ran the node tests.
//
//go:embed backends.txt
var backendText string

var backendLines = sync.OnceValue(func() map[[2]string]map[string]string {
	lines := map[[2]string]map[string]string{}
	for line := range strings.Lines(backendText) {
		parts := strings.Split(strings.TrimSpace(line), " | ")
		if strings.HasPrefix(line, "#") || len(parts) < 2 {
			continue
		}
		domain, name, _ := strings.Cut(parts[0], " ")
		on := map[string]string{}
		for _, part := range parts[1:] {
			backend, what, _ := strings.Cut(part, ": ")
			on[backend] = what
		}
		lines[[2]string{domain, name}] = on
	}
	return lines
})

func backendsOf(domain, name string) map[string]string {
	return backendLines()[[2]string{domain, name}]
}

// typeGroups shorten lists of types.
var typeGroups = []struct{ name, types string }{
	{"integers", "uint8 int8 uint16 int16 int32 int64 uint32 uint64"},
	{"floats", "float float16 double bfloat16"},
	{"float8", "float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz"},
	{"complex", "complex64 complex128"},
	{"int4", "uint4 int4"},
	{"int2", "uint2 int2"},
}

// ShortTypes abbreviates Operator.Types: "integers" for all of 8 to 64 bits, "floats" for float, float16, double and bfloat16.
func ShortTypes(types []string) string {
	rest := slices.Clone(types)
	var out []string
	for _, g := range typeGroups {
		all := strings.Fields(g.types)
		if !slices.ContainsFunc(all, func(x string) bool { return !slices.Contains(rest, x) }) {
			out = append(out, g.name)
			rest = slices.DeleteFunc(rest, func(x string) bool { return slices.Contains(all, x) })
		}
	}
	kinds := map[string]bool{}
	for _, x := range rest {
		if kind, _, nested := strings.Cut(x, "("); !nested {
			out = append(out, x)
		} else if !kinds[kind] {
			kinds[kind] = true
			out = append(out, map[string]string{"seq": "sequences", "optional": "optionals", "map": "maps"}[kind])
		}
	}
	return strings.Join(out, ", ")
}

// Understands reports whether there is a row for an operator in an opset version of a domain. The lowering may still not support a
// particular node.
func Understands(op, opDomain string, version int) bool {
	_, err := findRow(domain(opDomain), op, version)
	return err == nil
}
