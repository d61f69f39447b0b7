package lower

import (
	"cmp"
	"slices"
)

// An Operator is a row of the table of lowerings: an ONNX operator from an opset version on.
type Operator struct {
	Domain string `json:"domain"`
	Name   string `json:"name"`
	Since  int    `json:"since"`
}

// leftOut says of operators that are left out for good why, and what to do.
var leftOut = map[string]string{
	"ImageDecoder":              "images are decoded before the model runs",
	"ai.onnx.ml.CastMap":        noMaps,
	"ai.onnx.ml.DictVectorizer": noMaps,
	"ai.onnx.ml.ZipMap":         noMaps + "; skl2onnx leaves it out with options={'zipmap': False}",
}

const noMaps = "values are tensors, sequences and optionals of tensors, not maps"

// Operators lists what Model understands, sorted. A row stands up to the next version of the same operator.
func Operators() []Operator {
	var out []Operator
	for domain, byName := range rowsByName {
		for name, rows := range byName {
			for _, r := range rows {
				out = append(out, Operator{domain, name, r.since})
			}
		}
	}
	slices.SortFunc(out, func(a, b Operator) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Since, b.Since))
	})
	return out
}

// Understands reports whether there is a row for an operator of a domain's opset version. A particular node may still use
// what its lowering does not know.
func Understands(op, opDomain string, version int) bool {
	_, err := findRow(domain(opDomain), op, version)
	return err == nil
}
