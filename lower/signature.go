package lower

import "github.com/rlxc/rlxc/tensor"

// A Signature is what an opset version of ONNX says of an operator, for programs that make models.
type Signature struct {
	Least    int // operands that must be listed
	Operands []Operand
	schema   *schema
}

// An Operand is one of a signature; those that share a Variable are of one type.
type Operand struct {
	Name, Variable     string
	Optional, Variadic bool
	Types              []tensor.DType
}

// SignatureOf returns the signature of an operator that this package lowers, false if a version has no such operator.
func SignatureOf(opDomain, name string, version int) (Signature, bool) {
	s := findSchema(domain(opDomain), name, version)
	if s == nil || s.deprecated || !Understands(name, opDomain, version) {
		return Signature{}, false
	}
	sig := Signature{Least: s.least, schema: s}
	for _, f := range s.inputs {
		o := Operand{Name: f.name, Variable: f.variable, Optional: f.optional, Variadic: f.variadic}
		for d := tensor.F32; d < tensor.NumDTypes; d++ {
			if f.types.tensors>>d&1 != 0 {
				o.Types = append(o.Types, d)
			}
		}
		sig.Operands = append(sig.Operands, o)
	}
	return sig, true
}

// Has reports whether the operator has an attribute.
func (s Signature) Has(attribute string) bool {
	_, ok := s.schema.attributes[attribute]
	return ok
}
