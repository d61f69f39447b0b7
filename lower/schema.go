package lower

import (
	_ "embed"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rlxc/rlxc/internal/files"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/onnx/onnxpb"
	"github.com/rlxc/rlxc/tensor"
)

// schemaText is ONNX's own word on every version of its operators; see the first lines of the file.
//
//go:embed schemas.txt
var schemaText string

// A schema is the operands, results and attributes of a version of an operator.
type schema struct {
	domain          string
	since           int
	deprecated      bool
	inputs, outputs []formal
	least, outs     int // operands and results that must be listed
	types           map[string]*typeSet
	attributes      map[string]attribute
}

// A formal is an operand or result: its type is a variable of the schema's types, or a separate set.
type formal struct {
	name, variable       string
	types                *typeSet
	optional, variadic   bool
	heterogeneous, bound bool // whether a variadic one may be of several types; whether variable is shared
}

// A typeSet is tensors of some types, and sequences, optionals and maps by their names.
type typeSet struct {
	tensors uint32
	others  map[string]bool
	text    string
}

type attribute struct {
	kind     string
	required bool
}

// schemaLines finds the lines of an operator, the sets of types in front of them.
var schemaLines = sync.OnceValues(func() (lines map[[2]string][]string, sets map[string]string) {
	lines, sets = map[[2]string][]string{}, map[string]string{}
	for line := range strings.Lines(schemaText) {
		line = strings.TrimSuffix(line, "\n")
		first, rest, _ := strings.Cut(line, " ")
		switch {
		case first == "#":
		case strings.HasPrefix(rest, "= "):
			sets[first] = rest[2:]
		default:
			name, rest, _ := strings.Cut(rest, " ")
			lines[[2]string{first, name}] = append(lines[[2]string{first, name}], rest)
		}
	}
	return lines, sets
})

type schemaKey struct {
	domain, name string
	version      int
}

var parsedSchemas sync.Map // schemaKey → *schema

// findSchema returns the schema that is in a version of a domain, nil for operators that are not ONNX's nor onnxruntime's.
func findSchema(domain, name string, version int) *schema {
	key := schemaKey{domain, name, version}
	if s, ok := parsedSchemas.Load(key); ok {
		return s.(*schema)
	}
	lines, _ := schemaLines()
	var found *schema
	for _, line := range lines[[2]string{domain, name}] {
		if s := parseSchema(line); s.since <= version {
			found, s.domain = s, domain
		}
	}
	parsedSchemas.Store(key, found)
	return found
}

// parseSchema reads what is after the operator's name.
func parseSchema(line string) *schema {
	parts := strings.Split(line, "|")
	head := strings.Fields(parts[0])
	s := &schema{types: map[string]*typeSet{}, attributes: map[string]attribute{}}
	s.since, _ = strconv.Atoi(head[0])
	if len(head) > 1 {
		s.deprecated = true
		return s
	}
	_, sets := schemaLines()
	for _, f := range strings.Fields(parts[3]) {
		variable, set, _ := strings.Cut(f, "=")
		s.types[variable] = parseTypes(sets[set])
	}
	s.least, s.inputs = s.formals(parts[1])
	s.outs, s.outputs = s.formals(parts[2])
	for _, f := range strings.Fields(parts[4]) {
		name, kind, _ := strings.Cut(f, ":")
		kind, required := strings.CutSuffix(kind, "!")
		s.attributes[name] = attribute{kind, required}
	}
	return s
}

func (s *schema) formals(text string) (least int, list []formal) {
	for i, f := range strings.Fields(text) {
		if i == 0 {
			least, _ = strconv.Atoi(f)
			continue
		}
		name, variable, _ := strings.Cut(f, ":")
		x := formal{name: strings.TrimRight(name, "?*"), variable: variable, optional: strings.HasSuffix(name, "?"),
			variadic:      strings.HasSuffix(name, "*"),
			heterogeneous: strings.HasSuffix(name, "**")}
		if x.types, x.bound = s.types[variable]; !x.bound {
			x.types = parseTypes(variable)
		}
		list = append(list, x)
	}
	return least, list
}

func parseTypes(text string) *typeSet {
	t := &typeSet{text: text}
	for _, name := range strings.Fields(text) {
		if d, ok := tensorTypes()[name]; ok {
			t.tensors |= 1 << d
		} else {
			if t.others == nil {
				t.others = map[string]bool{}
			}
			t.others[name] = true
		}
	}
	return t
}

// tensorTypes finds element types by ONNX's names.
var tensorTypes = sync.OnceValue(func() map[string]tensor.DType {
	m := map[string]tensor.DType{}
	for d := tensor.F32; d < tensor.NumDTypes; d++ {
		m[d.ONNX()] = d
	}
	return m
})

func (t *typeSet) has(x ir.Type) bool {
	if x.Kind == ir.TensorType {
		return t.tensors>>x.DType&1 != 0
	}
	return t.others[typeText(x)]
}

// String lists the types; of many, the first.
func (t *typeSet) String() string {
	const most = 12
	names := strings.Fields(t.text)
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// typeText is a type as schemas write it.
func typeText(t ir.Type) string {
	switch t.Kind {
	case ir.SequenceType:
		return "seq(" + typeText(*t.Elem) + ")"
	case ir.OptionalType:
		return "optional(" + typeText(*t.Elem) + ")"
	}
	return t.DType.ONNX()
}

// A schemaError is that a node is not what the schema of its operator allows, whatever the sizes of its operands.
type schemaError struct{ error }

func (e schemaError) Unwrap() error { return e.error }

// contribVersion is the version of onnxruntime from which the schemas of com.microsoft are.
const contribVersion = "1.32.0"

// grows reports whether the operator gains operands, results and attributes without a new version, as those of onnxruntime do.
func (s *schema) grows() bool { return s.domain == "com.microsoft" }

// newer returns the error of a node with a part that its schema lacks and that a later onnxruntime may have.
func newer(part string) error {
	return fmt.Errorf("%w: %s is not supported: onnxruntime %s, whose operators rlxc has, does not know it", ErrUnsupported, part,
		contribVersion)
}

// form compares a node with the schema as far as the node alone shows: the number of its operands and results, its attributes.
func (s *schema) form(operands, results int, attrs ir.Attrs, version int) error {
	if s.deprecated {
		return fmt.Errorf("%w: ONNX removed the operator in opset %d; the model uses opset %d", ErrInvalid, s.since, version)
	}
	for _, c := range []struct {
		what        string
		have, least int
		formals     []formal
	}{{"operand", operands, s.least, s.inputs}, {"result", results, s.outs, s.outputs}} {
		if err := countWithin(c.what, c.have, c.least, c.formals); err != nil && c.have > len(c.formals) && s.grows() {
			return newer(fmt.Sprintf("%s %d", c.what, len(c.formals)))
		} else if err != nil {
			return err
		}
	}
	return s.checkAttributes(attrs, version)
}

// check is form, and compares the types of the operands.
func (s *schema) check(n *onnxpb.NodeProto, in []*ir.Value, attrs ir.Attrs, version int) error {
	if err := s.form(len(in), len(n.GetOutput()), attrs, version); err != nil {
		return err
	}
	bound := map[string]int{} // the operand that gave a type variable its type
	for i, v := range in {
		f := &s.inputs[min(i, len(s.inputs)-1)]
		if v == nil {
			if !f.optional && !f.variadic {
				return fmt.Errorf("%w: operand %d (%s) is missing", ErrInvalid, i, f.name)
			}
			continue
		}
		if !f.types.has(v.Type) {
			return fmt.Errorf("%w: operand %d (%s) is %s; opset %d takes %s", ErrInvalid, i, f.name, typeText(v.Type), version, f.types)
		}
		if !f.bound || f.heterogeneous {
			continue
		}
		if k, ok := bound[f.variable]; !ok {
			bound[f.variable] = i
		} else if a, b := typeText(in[k].Type), typeText(v.Type); a != b {
			return fmt.Errorf("%w: operand %d (%s) is %s and operand %d (%s) is %s, which must be of one type",
				ErrInvalid, k, s.inputs[min(k, len(s.inputs)-1)].name, a, i, f.name, b)
		}
	}
	return nil
}

// result is the element type of a tensor result, where the operands or the schema alone determine it.
func (s *schema) result(i int, in []*ir.Value) tensor.DType {
	if len(s.outputs) == 0 {
		return tensor.Invalid
	}
	f := &s.outputs[min(i, len(s.outputs)-1)]
	for k, v := range in {
		if x := &s.inputs[min(k, len(s.inputs)-1)]; v != nil && f.bound && !f.heterogeneous && x.variable == f.variable &&
			v.Type.Kind == ir.TensorType {
			return v.Type.DType
		}
	}
	if f.types.tensors != 0 && f.types.tensors&(f.types.tensors-1) == 0 {
		return tensor.DType(bits.TrailingZeros32(f.types.tensors))
	}
	return tensor.Invalid
}

func countWithin(what string, have, least int, formals []formal) error {
	most := len(formals)
	if most > 0 && formals[most-1].variadic {
		most = math.MaxInt
	}
	bound, number := "", least
	switch {
	case have >= least && have <= most:
		return nil
	case have < least && least < most:
		bound = "at least "
	case least < most:
		bound, number = "at most ", most
	}
	return fmt.Errorf("%w: the node has %d %ss, the operator %s%d", ErrInvalid, have, what, bound, number)
}

func (s *schema) checkAttributes(attrs ir.Attrs, version int) error {
	for _, a := range attrs {
		known, ok := s.attributes[a.Name]
		if !ok && s.grows() {
			return newer("attribute " + files.Plain(a.Name))
		}
		if !ok {
			return fmt.Errorf("%w: attribute %s is unknown to opset %d", ErrInvalid, files.Plain(a.Name), version)
		}
		if kind := attributeKind(a.Value); kind != known.kind {
			return fmt.Errorf("%w: attribute %s is of type %s, not %s", ErrInvalid, a.Name, kind, known.kind)
		}
	}
	for name, a := range s.attributes {
		if _, ok := attrs.Get(name); a.required && !ok {
			missing := []string{name}
			for other, b := range s.attributes { // the same word for every run
				if _, ok := attrs.Get(other); b.required && !ok {
					missing = append(missing, other)
				}
			}
			return fmt.Errorf("%w: attribute %s is missing", ErrInvalid, slices.Min(missing))
		}
	}
	return nil
}

// attributeKind names the type of an attribute's value as schemas do.
func attributeKind(v any) string {
	switch v.(type) {
	case float32:
		return "float"
	case int64:
		return "int"
	case string:
		return "string"
	case []float32:
		return "floats"
	case []int64:
		return "ints"
	case []string:
		return "strings"
	case *tensor.Tensor:
		return "tensor"
	case *subgraph:
		return "graph"
	case *onnxpb.SparseTensorProto:
		return "sparse"
	case *onnxpb.TypeProto:
		return "type"
	}
	return fmt.Sprintf("%T", v)
}

// A Signature is ONNX's description of an operator in an opset version, for programs that make models.
type Signature struct {
	Least    int // operands that must be listed
	Operands []Operand
	schema   *schema
}

// An Operand belongs to a signature. Operands with the same Variable have the same type.
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
