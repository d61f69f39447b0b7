package ir

import (
	"errors"
	"fmt"
)

// Verify checks everything that the rest of the compiler takes for granted: every value is defined once and before it is
// used, subgraphs see what is before their node and keep what is theirs, the lists of uses are exact, the types are
// those that the shape rules give (of results with the trait Typed: the element type and rank), and outputs exist. All violations are
// reported, each with its node.
func Verify(g *Graph) error {
	v := verifier{defined: map[*Value]bool{}, ids: map[int]*Value{}, uses: map[*Value]map[Use]int{}, nextID: g.nextID}
	v.graph(g)
	for _, x := range v.order {
		uses := v.uses[x]
		for _, u := range x.Uses {
			uses[u]--
		}
		for u, n := range uses {
			switch {
			case n > 0:
				v.failf("%%%d: its use by node %s, operand %d, is not listed", x.ID, u.Node.Label(), u.Index)
			case n < 0:
				v.failf("%%%d: lists a use by node %s (%s), operand %d, that is not in the graph", x.ID, u.Node.Label(),
					OpName(u.Node.Op), u.Index)
			}
		}
	}
	return errors.Join(v.problems...)
}

type verifier struct {
	defined  map[*Value]bool // values in scope
	ids      map[int]*Value
	uses     map[*Value]map[Use]int // uses of each value, counted from the nodes' operands
	order    []*Value               // the keys of uses
	nextID   int
	problems []error
}

func (v *verifier) failf(format string, args ...any) {
	v.problems = append(v.problems, fmt.Errorf("ir: "+format, args...))
}

func (v *verifier) graph(g *Graph) {
	var mine []*Value
	define := func(x *Value, def *Node) {
		v.value(x)
		if x.Def != def {
			v.failf("%%%d: its node is not the one that defines it", x.ID)
		}
		if v.defined[x] {
			v.failf("%%%d is defined twice", x.ID)
		}
		v.defined[x] = true
		mine = append(mine, x)
	}
	for _, x := range g.Inputs {
		define(x, nil)
		if x.IsConst() {
			v.failf("input %%%d %q is a constant", x.ID, x.Name)
		}
		if x.Default == nil {
			continue
		}
		if err := x.Type.accepts(x.Default); err != nil {
			v.failf("the default of input %%%d %q %w", x.ID, x.Name, err)
		}
	}
	for _, n := range g.Nodes {
		for i, x := range n.Inputs {
			if x == nil {
				continue
			}
			v.operand(x, func() string { return fmt.Sprintf("node %s (%s), operand %d", n.Label(), OpName(n.Op), i) })
			v.uses[x][Use{n, i}]++
			if x.Packed != nil && x.Const == nil && !takesPacked(n.Op, i) {
				v.failf("node %s (%s): operand %d, %%%d, is packed, which this op cannot read", n.Label(), OpName(n.Op), i, x.ID)
			}
		}
		for _, r := range n.Subgraphs {
			v.graph(r)
		}
		v.types(n)
		for _, x := range n.Outputs {
			define(x, n)
			if x.IsConst() {
				v.failf("%%%d is the result of a node and a constant", x.ID)
			}
		}
	}
	for i, x := range g.Outputs {
		if x == nil {
			v.failf("graph %q: output %d is absent", g.Name, i)
			continue
		}
		if x.Packed != nil && x.Const == nil {
			v.failf("graph %q: output %d, %%%d, is packed, and an output cannot be packed", g.Name, i, x.ID)
		}
		v.operand(x, func() string { return fmt.Sprintf("graph %q, output %d", g.Name, i) })
	}
	if n := len(g.OutputNames); n != 0 && n != len(g.Outputs) {
		v.failf("graph %q: %d names for %d outputs", g.Name, n, len(g.Outputs))
	}
	for _, x := range mine {
		delete(v.defined, x)
	}
}

// A PackedReader is an op of another package with kernels that read some operands in a separate layout.
type PackedReader interface {
	Op
	ReadsPacked(operand int) bool
}

// takesPacked reports whether an op may read an operand in a layout for kernels, which no shape rule or Eval understands.
func takesPacked(op Op, operand int) bool {
	switch op := op.(type) {
	case MatMul:
		return operand == MatMulB
	case Conv:
		return operand == ConvW
	case QMatMul, QConv:
		return operand == QMatMulB
	case MatMulNBits:
		return operand == NBitsWeights
	case PackedReader:
		return op.ReadsPacked(operand)
	}
	return false
}

// operand checks that x can be read here.
func (v *verifier) operand(x *Value, where func() string) {
	v.value(x)
	if !v.defined[x] && !(x.IsConst() && x.Def == nil) {
		v.failf("%s: %%%d is not defined before it is used", where(), x.ID)
	}
}

// value meets a value for the first time.
func (v *verifier) value(x *Value) {
	if v.uses[x] != nil {
		return
	}
	v.uses[x] = map[Use]int{}
	v.order = append(v.order, x)
	if other := v.ids[x.ID]; other != nil {
		v.failf("two values are %%%d", x.ID)
	}
	v.ids[x.ID] = x
	if x.ID < 0 || x.ID >= v.nextID {
		v.failf("%%%d: the graph's numbers end before %d", x.ID, v.nextID)
	}
	if x.Type.Kind == TensorType && !x.Type.DType.Valid() {
		v.failf("%%%d has no element type", x.ID)
	}
	if x.Const != nil && !x.Type.Equal(TensorOf(x.Const.DType(), Dims(x.Const.Shape()...)...)) {
		v.failf("constant %%%d is %v: its type is %v", x.ID, x.Const, x.Type)
	}
	if n, known := x.Type.Shape.Elements().Const(); x.Dims != nil && (!known || n != len(x.Dims)) {
		v.failf("%%%d has a content of %d sizes for type %v", x.ID, len(x.Dims), x.Type)
	}
}

func (v *verifier) types(n *Node) {
	types, err := Infer(n)
	if err != nil {
		v.problems = append(v.problems, n.Fail(err))
		return
	}
	if len(types) != len(n.Outputs) {
		v.failf("node %s (%s) has %d results where its op has %d", n.Label(), OpName(n.Op), len(n.Outputs), len(types))
		return
	}
	for i, t := range types {
		have := n.Outputs[i].Type
		same := t.Equal(have)
		if n.Op.Kind().Has(Typed) {
			same = t.Kind == have.Kind && t.DType == have.DType && t.Unranked == have.Unranked && len(t.Shape) == len(have.Shape)
		}
		if !same {
			v.failf("node %s (%s): result %%%d is %v where the shape rule returns %v", n.Label(), OpName(n.Op), n.Outputs[i].ID, have, t)
		}
	}
}
