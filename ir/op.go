package ir

import (
	"fmt"
	"reflect"

	"github.com/rlxc/rlxc/tensor"
)

// An Op is the operation of a node: a struct whose fields are the operation's parameters, all known at compile time. The zero value need
// not be meaningful. Ops are values and are not changed after they are put into a node.
type Op interface {
	// Kind is the op's index in the table here and in every backend's kernel table.
	Kind() Kind
	// Infer is the shape rule. It accepts symbolic and bound shapes, so that Bind can check what compilation could not decide. It fails
	// if the op does not take such types or shapes.
	Infer(in []*Value) ([]Type, error)
	// Eval is the definition of the op, slow and plain. It folds constants, is the reference in the tests of kernels, and runs ops that a
	// backend lacks. Absent operands are nil. The results must not share memory with the operands, except for ops with the trait Typed.
	// Call it by EvalOp: see Env. It fails if the op does not take such sizes or contents, or if Env refuses memory or work.
	Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error)
}

// A Bounded op has results whose sizes depend on data but are bounded by the sizes of the operands.
type Bounded interface {
	Op
	// Most returns the largest shapes of the results, for operands of these shapes. An absent operand has none.
	Most(in [][]int) [][]int
}

// Kind numbers the ops, so that tables over them are arrays.
type Kind uint8

// The ops of the IR. Other packages' follow in the order in which they are registered: see Opaque.
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
	// products, and the parts of transformers
	KindMatMul
	KindChain
	KindConv
	KindLayerNorm
	KindAttention
	KindRotary
	KindEmbedding
	KindSumSequences
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
	// skipping padding
	KindPack
	KindUnpack
	// users' operators
	KindCustom
)

// NumKinds bounds the kinds: those of the IR and as many more as packages register.
const NumKinds Kind = 160

// Traits are facts about an op, for passes.
type Traits uint8

// The traits.
const (
	// View: output 0 shows the memory of input 0, if its layout allows (see LayoutOf).
	View Traits = 1 << iota
	// Elementwise: every output element depends only on the elements at its own, broadcast, position.
	Elementwise
	// KeepsCustom: liveness treats the op as a custom operator: its operands and results may be held longer, as its policy says.
	KeepsCustom
	// Typed: the types of the results are in the op's field Types, since they may depend on data; Infer does not repeat them.
	Typed
	// IsOpaque: no pass looks into the op.
	IsOpaque
	// HoldsSum: the op is or holds, fused, an Add or a LayerNorm of the model, whose operands package liveness may hold longer.
	HoldsSum
)

// A Flow is how a difference in the last place of a float operand changes the result.
type Flow uint8

// The flows.
const (
	Decides Flow = iota // it may flip an integer, a truth or a position: the op has a step in it; so does an op of which nothing is known
	Carries             // it stays one
	Absorbs             // the result has separate roundings that nothing prescribes, such as those of a sum of products
	Encodes             // it may move a quantised value by one
)

// A Def is an op's row in the table. Rows have every field, so that a new fact must be stated for every op.
type Def struct {
	Name   string // name in the text form; ops that print under several names, such as Binary, implement namer instead
	Op     Op     // a value of the op's type
	MinIn  int
	MaxIn  int // -1: any number
	Traits Traits
	Flow   Flow      // flow of every operand, or of operand 0 only if the op is opaque
	Flops  FlopsRule // NoFlops if the op is not a product
	Rows   RowsRule  // NoRows if each row of the result needs all rows of the operands
}

// namer is an op that prints under a separate name, such as "add"; named lists all names with the op that each means.
type namer interface {
	opName() string
	named() map[string]Op
}

// rows are the ops of the IR.
var rows = []Def{
	{"", Unary{}, 1, 1, Elementwise, Carries, NoFlops, NoRows},
	{"", Binary{}, 2, 2, Elementwise | HoldsSum, Carries, NoFlops, NoRows},
	{"where", Where{}, 3, 3, Elementwise, Carries, NoFlops, NoRows},
	{"cast", Cast{}, 1, 1, Elementwise, Carries, NoFlops, NoRows},
	{"clip", Clip{}, 1, 3, Elementwise, Carries, NoFlops, NoRows},
	{"map", Map{}, 1, -1, Elementwise | HoldsSum, Carries, NoFlops, NoRows},

	{"reshape", Reshape{}, 1, 1, View, Carries, NoFlops, NoRows},
	{"transpose", Transpose{}, 1, 1, View, Carries, NoFlops, NoRows},
	{"slice", Slice{}, 1, 1, View, Carries, NoFlops, NoRows},
	{"expand", Expand{}, 1, 1, View, Carries, NoFlops, NoRows},
	{"copy", Copy{}, 1, 1, 0, Carries, NoFlops, NoRows},
	{"materialize", Materialize{}, 1, 1, 0, Carries, NoFlops, NoRows},
	{"concat", Concat{}, 1, -1, 0, Carries, NoFlops, NoRows},
	{"append", Append{}, 2, 3, 0, Carries, NoFlops, NoRows},
	{"pad", Pad{}, 1, 2, 0, Carries, NoFlops, NoRows},
	{"tile", Tile{}, 1, 1, 0, Carries, NoFlops, NoRows},
	{"trilu", Trilu{}, 1, 1, 0, Carries, NoFlops, NoRows},

	{"gather", Gather{}, 2, 2, 0, Carries, NoFlops, gatherRows},
	{"gather_elements", GatherElements{}, 2, 2, 0, Carries, NoFlops, NoRows},
	{"gather_nd", GatherND{}, 2, 2, 0, Carries, NoFlops, NoRows},
	{"scatter_elements", ScatterElements{}, 3, 3, 0, Carries, NoFlops, NoRows},
	{"scatter_nd", ScatterND{}, 3, 3, 0, Carries, NoFlops, NoRows},
	{"one_hot", OneHot{}, 2, 2, 0, Carries, NoFlops, NoRows},

	{"", Reduce{}, 1, 1, 0, Carries, NoFlops, NoRows},
	{"", ArgReduce{}, 1, 1, 0, Decides, NoFlops, NoRows},
	{"softmax", Softmax{}, 1, 1, 0, Absorbs, NoFlops, NoRows},
	{"cumsum", CumSum{}, 1, 1, 0, Carries, NoFlops, NoRows},

	{"dims", DimsOp{}, 0, 0, 0, Carries, NoFlops, NoRows},
	{"range", Range{}, 0, 0, 0, Carries, NoFlops, NoRows},

	{"matmul", MatMul{}, 2, 4, HoldsSum, Absorbs, matMulFlops, NoRows},
	{"chain", Chain{}, 2, -1, HoldsSum, Absorbs, chainFlops, NoRows},
	{"conv", Conv{}, 2, 4, HoldsSum, Absorbs, convFlops, NoRows},
	{"layernorm", LayerNorm{}, 1, 4, HoldsSum, Absorbs, NoFlops, NoRows},
	{"attention", Attention{}, 3, 10, 0, Absorbs, attentionFlops, NoRows},
	{"rotary", Rotary{}, 3, 3, 0, Carries, NoFlops, NoRows},
	{"embedding", Embedding{}, 2, -1, HoldsSum, Absorbs, NoFlops, embeddingRows(2)},
	{"sum_sequences", SumSequences{}, 2, 2, 0, Absorbs, NoFlops, NoRows},

	{"quantize", Quantize{}, 2, 3, 0, Encodes, NoFlops, NoRows},
	{"dequantize", Dequantize{}, 2, 3, 0, Carries, NoFlops, NoRows},
	{"onnx.DynamicQuantizeLinear", DynamicQuantize{}, 1, 1, KeepsCustom, Encodes, NoFlops, NoRows},
	{"onnx.QMatMul", QMatMul{}, 2, 11, KeepsCustom | HoldsSum, Encodes, matMulFlops, NoRows},
	{"qconv", QConv{}, 2, 10, KeepsCustom | HoldsSum, Encodes, convFlops, NoRows},
	{"qattention", QAttention{}, 3, 17, 0, Absorbs, attentionFlops, NoRows},
	{"qlayernorm", QLayerNorm{}, 1, 8, HoldsSum, Absorbs, NoFlops, NoRows},
	{"qembedding", QEmbedding{}, 2, -1, HoldsSum, Absorbs, NoFlops, embeddingRows(4)},
	{"matmul_nbits", MatMulNBits{}, 3, 7, HoldsSum, Encodes, nBitsFlops, NoRows},

	{"onnx.ActCopy", ActCopy{}, 1, 1, KeepsCustom, Carries, NoFlops, NoRows},
	{"rlxc.Pack", Pack{}, 1, -1, KeepsCustom | Typed | IsOpaque, Decides, NoFlops, NoRows},
	{"rlxc.Unpack", Unpack{}, 3, 3, KeepsCustom | IsOpaque, Decides, NoFlops, NoRows},
	{"custom", Custom{}, 0, -1, KeepsCustom | Typed | IsOpaque, Decides, NoFlops, NoRows},
}

func init() {
	Register(rows...)
	for k := KindInvalid + 1; k <= KindCustom; k++ {
		if table[k].Op == nil {
			panic(fmt.Sprintf("ir: kind %d has no row in the table of ops", k))
		}
	}
}

// Has reports whether the kind has all of the traits.
func (k Kind) Has(t Traits) bool { return table[k].Traits&t == t }

// String is the kind's name in reports: the printed name of ops that have one, the Go type's otherwise.
func (k Kind) String() string {
	if k == KindInvalid || k > lastKind {
		return "invalid"
	}
	if table[k].Name != "" {
		return table[k].Name
	}
	return reflect.TypeOf(table[k].Op).Name()
}

// DefOf returns the op's row in the table.
func DefOf(op Op) *Def { return &table[op.Kind()] }

// OpName is the name that the IR prints for op.
func OpName(op Op) string {
	switch o := op.(type) {
	case namer:
		return o.opName()
	}
	return DefOf(op).Name
}

// Infer checks a node's operands against the op's row and runs its shape rule.
func Infer(n *Node) ([]Type, error) {
	d := DefOf(n.Op)
	if len(n.Inputs) < d.MinIn || d.MaxIn >= 0 && len(n.Inputs) > d.MaxIn {
		return nil, fmt.Errorf("%s has %d operands", OpName(n.Op), len(n.Inputs))
	}
	for i, v := range n.Inputs[:d.MinIn] {
		if v == nil && d.MaxIn >= 0 {
			return nil, fmt.Errorf("%s lacks operand %d", OpName(n.Op), i)
		}
	}
	if !n.Op.Kind().Has(Typed) { // only these take what has no rank yet, sequences and optionals
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
	var room [8]int
	for i, t := range types {
		if s, ok := t.appendSizes(room[:0]); ok {
			if _, err := s.CheckElements(t.DType); err != nil {
				return nil, fmt.Errorf("result %d: %w", i, err)
			}
		}
	}
	return types, nil
}
