package ir

import (
	"fmt"
	"reflect"

	"github.com/rlxc/rlxc/tensor"
)

// An Op is what a node does: a struct whose fields are the operation's parameters, all known at compile time. The zero
// value need not be meaningful. Ops are values: nothing changes one after it was put into a node.
type Op interface {
	// Kind is the op's row in the table and in every backend's table of kernels.
	Kind() Kind
	// Infer is the shape rule. It sees symbolic or bound shapes alike, so that Bind checks with it what compilation
	// could not decide. It fails if the types or shapes are none that the op takes.
	Infer(in []*Value) ([]Type, error)
	// Eval is the meaning of the op: slow and plainly right. It folds constants, is the oracle of every kernel's tests,
	// and runs what a backend lacks. Absent operands are nil. The results must not share memory with the operands, those of
	// ops of KindDynamic apart. Call it by EvalOp: see Env. It fails if the sizes or contents are none that the op takes, or if Env
	// refuses the memory or the work.
	Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error)
}

// A Bounded op has results whose sizes depend on data and are never above what the sizes of the operands allow.
type Bounded interface {
	Op
	// Most returns the largest shapes of the results, for operands of these shapes. An absent operand has none.
	Most(in [][]int) [][]int
}

// Kind numbers the ops, so that tables over them are arrays.
type Kind uint8

// The ops. A kind without a row in table fails at start-up, and every backend's table has the same rule.
const (
	KindInvalid Kind = iota
	// elementwise
	KindUnary
	KindBinary
	KindWhere
	KindCast
	KindClip
	KindMap
	// views and movement
	KindReshape
	KindTranspose
	KindSlice
	KindExpand
	KindCopy
	KindMaterialize
	KindConcat
	KindAppend
	KindPad
	KindTile
	KindTrilu
	// indexing
	KindGather
	KindGatherElements
	KindGatherND
	KindScatterElements
	KindScatterND
	KindOneHot
	// reductions along axes
	KindReduce
	KindArgReduce
	KindSoftmax
	KindCumSum
	// sources
	KindDims
	KindRange
	// products and what transformers are made of
	KindMatMul
	KindConv
	KindLayerNorm
	KindAttention
	KindRotary
	KindEmbedding
	KindSumRows
	// quantised
	KindQuantize
	KindDequantize
	KindDynamicQuantize
	KindQMatMul
	KindQConv
	KindQAttention
	KindQLayerNorm
	KindQEmbedding
	KindMatMulNBits
	KindActCopy
	// ONNX operators of package ops, and users' own
	KindKept
	KindDynamic
	KindCustom
	NumKinds
)

// Traits are facts about an op that passes ask for.
type Traits uint8

// The traits.
const (
	// View: output 0 shows the memory of input 0, if its layout allows (see LayoutOf).
	View Traits = 1 << iota
	// Elementwise: every output element depends only on the elements at its own, broadcast, position.
	Elementwise
	// KeepsCustom: liveness treats the op as a custom operator: its operands and results may be held longer, as its policy says.
	KeepsCustom
	// Dynamic: the output types are those given when the node was made; Infer does not repeat them.
	Dynamic
)

// A Def is an op's row. Rows have every field, so that a new fact about ops is asked of each of them.
type Def struct {
	Name   string // as printed; ops that print under several names, such as Binary, implement namer instead
	Op     Op     // a value of the op's type
	MinIn  int
	MaxIn  int // -1: any number
	Traits Traits
	Flops  FlopsRule // NoFlops for what is no product
	Rows   RowsRule  // NoRows for what reads all of its operands
}

// namer is an op that prints under a name of its own, such as "add"; named lists all names with the op that each means.
type namer interface {
	opName() string
	named() map[string]Op
}

var table = [NumKinds]Def{
	KindUnary:  {"", Unary{}, 1, 1, Elementwise, NoFlops, NoRows},
	KindBinary: {"", Binary{}, 2, 2, Elementwise, NoFlops, NoRows},
	KindWhere:  {"where", Where{}, 3, 3, Elementwise, NoFlops, NoRows},
	KindCast:   {"cast", Cast{}, 1, 1, Elementwise, NoFlops, NoRows},
	KindClip:   {"clip", Clip{}, 1, 3, Elementwise, NoFlops, NoRows},
	KindMap:    {"map", Map{}, 1, -1, Elementwise, NoFlops, NoRows},

	KindReshape:     {"reshape", Reshape{}, 1, 1, View, NoFlops, NoRows},
	KindTranspose:   {"transpose", Transpose{}, 1, 1, View, NoFlops, NoRows},
	KindSlice:       {"slice", Slice{}, 1, 1, View, NoFlops, NoRows},
	KindExpand:      {"expand", Expand{}, 1, 1, View, NoFlops, NoRows},
	KindCopy:        {"copy", Copy{}, 1, 1, 0, NoFlops, NoRows},
	KindMaterialize: {"materialize", Materialize{}, 1, 1, 0, NoFlops, NoRows},
	KindConcat:      {"concat", Concat{}, 1, -1, 0, NoFlops, NoRows},
	KindAppend:      {"append", Append{}, 2, 3, 0, NoFlops, NoRows},
	KindPad:         {"pad", Pad{}, 1, 2, 0, NoFlops, NoRows},
	KindTile:        {"tile", Tile{}, 1, 1, 0, NoFlops, NoRows},
	KindTrilu:       {"trilu", Trilu{}, 1, 1, 0, NoFlops, NoRows},

	KindGather:          {"gather", Gather{}, 2, 2, 0, NoFlops, gatherRows},
	KindGatherElements:  {"gather_elements", GatherElements{}, 2, 2, 0, NoFlops, NoRows},
	KindGatherND:        {"gather_nd", GatherND{}, 2, 2, 0, NoFlops, NoRows},
	KindScatterElements: {"scatter_elements", ScatterElements{}, 3, 3, 0, NoFlops, NoRows},
	KindScatterND:       {"scatter_nd", ScatterND{}, 3, 3, 0, NoFlops, NoRows},
	KindOneHot:          {"one_hot", OneHot{}, 2, 2, 0, NoFlops, NoRows},

	KindReduce:    {"", Reduce{}, 1, 1, 0, NoFlops, NoRows},
	KindArgReduce: {"", ArgReduce{}, 1, 1, 0, NoFlops, NoRows},
	KindSoftmax:   {"softmax", Softmax{}, 1, 1, 0, NoFlops, NoRows},
	KindCumSum:    {"cumsum", CumSum{}, 1, 1, 0, NoFlops, NoRows},

	KindDims:  {"dims", DimsOp{}, 0, 0, 0, NoFlops, NoRows},
	KindRange: {"range", Range{}, 0, 0, 0, NoFlops, NoRows},

	KindMatMul:    {"matmul", MatMul{}, 2, 4, 0, matMulFlops, NoRows},
	KindConv:      {"conv", Conv{}, 2, 4, 0, convFlops, NoRows},
	KindLayerNorm: {"layernorm", LayerNorm{}, 1, 4, 0, NoFlops, NoRows},
	KindAttention: {"attention", Attention{}, 3, 10, 0, attentionFlops, NoRows},
	KindRotary:    {"rotary", Rotary{}, 3, 3, 0, NoFlops, NoRows},
	KindEmbedding: {"embedding", Embedding{}, 2, -1, 0, NoFlops, embeddingRows(2)},
	KindSumRows:   {"sum_rows", SumRows{}, 2, 2, 0, NoFlops, NoRows},

	KindQuantize:        {"quantize", Quantize{}, 2, 3, 0, NoFlops, NoRows},
	KindDequantize:      {"dequantize", Dequantize{}, 2, 3, 0, NoFlops, NoRows},
	KindDynamicQuantize: {"onnx.DynamicQuantizeLinear", DynamicQuantize{}, 1, 1, KeepsCustom, NoFlops, NoRows},
	KindQMatMul:         {"onnx.QMatMul", QMatMul{}, 2, 11, KeepsCustom, matMulFlops, NoRows},
	KindQConv:           {"qconv", QConv{}, 2, 10, KeepsCustom, convFlops, NoRows},
	KindQAttention:      {"qattention", QAttention{}, 3, 17, 0, attentionFlops, NoRows},
	KindQLayerNorm:      {"qlayernorm", QLayerNorm{}, 1, 8, 0, NoFlops, NoRows},
	KindQEmbedding:      {"qembedding", QEmbedding{}, 2, -1, 0, NoFlops, embeddingRows(4)},
	KindMatMulNBits:     {"matmul_nbits", MatMulNBits{}, 3, 7, 0, nBitsFlops, NoRows},

	KindActCopy: {"onnx.ActCopy", ActCopy{}, 1, 1, KeepsCustom, NoFlops, NoRows},
	KindKept:    {"kept", nil, 0, -1, KeepsCustom, NoFlops, NoRows},
	KindDynamic: {"dynamic", nil, 0, -1, KeepsCustom | Dynamic, NoFlops, NoRows},
	KindCustom:  {"custom", Custom{}, 0, -1, KeepsCustom | Dynamic, NoFlops, NoRows},
}

// prototypes maps every printed name to the op that it means, without its parameters.
var prototypes = map[string]Op{}

func init() {
	for k := KindInvalid + 1; k < NumKinds; k++ {
		d := table[k]
		if d.Op == nil && (k == KindKept || k == KindDynamic) { // Register has their rows
			continue
		}
		if d.Op == nil || d.Op.Kind() != k {
			panic(fmt.Sprintf("ir: kind %d has no row of its own in the op table", k))
		}
		describe(d.Op)
		if n, ok := d.Op.(namer); ok {
			for name, op := range n.named() {
				prototypes[name] = op
			}
			continue
		}
		prototypes[d.Name] = d.Op
	}
}

// Has reports whether the kind has all of the traits.
func (k Kind) Has(t Traits) bool { return table[k].Traits&t == t }

// String is the kind's name in reports: the printed name of ops that have one, the Go type's otherwise.
func (k Kind) String() string {
	if k == KindInvalid || k >= NumKinds {
		return "invalid"
	}
	if table[k].Name != "" {
		return table[k].Name
	}
	return reflect.TypeOf(table[k].Op).Name()
}

// RowOf is the row of an op: its kind's, or its own among the registered ones.
func RowOf(op Op) *Def {
	k := op.Kind()
	if k == KindKept || k == KindDynamic {
		return registered[reflect.TypeOf(op)]
	}
	return &table[k]
}

// OpName is the name that the IR prints for op.
func OpName(op Op) string {
	switch o := op.(type) {
	case namer:
		return o.opName()
	}
	return RowOf(op).Name
}

// Infer checks a node's operands against the op's row and runs its shape rule.
func Infer(n *Node) ([]Type, error) {
	d := RowOf(n.Op)
	if len(n.Inputs) < d.MinIn || d.MaxIn >= 0 && len(n.Inputs) > d.MaxIn {
		return nil, fmt.Errorf("%s has %d operands", OpName(n.Op), len(n.Inputs))
	}
	for i, v := range n.Inputs[:d.MinIn] {
		if v == nil && d.MaxIn >= 0 {
			return nil, fmt.Errorf("%s lacks operand %d", OpName(n.Op), i)
		}
	}
	if !n.Op.Kind().Has(Dynamic) { // only these take what has no rank yet, sequences and optionals
		for i, v := range n.Inputs {
			if v != nil && (v.Type.Kind != TensorType || v.Type.Unranked) {
				return nil, fmt.Errorf("%s: operand %d is %v, a tensor of known rank is needed", OpName(n.Op), i, v.Type)
			}
		}
	}
	types, err := n.Op.Infer(n.Inputs)
	if err != nil {
		return nil, err
	}
	for i, t := range types {
		if s, ok := t.Static(); ok {
			if _, err := s.CheckElements(t.DType); err != nil {
				return nil, fmt.Errorf("result %d: %w", i, err)
			}
		}
	}
	return types, nil
}
