// Package ops has the ONNX operators that a program keeps as the model has them, for want of an op of their own in the IR: each
// is a type with a shape rule and a meaning, and prints its parameters as ops of the IR do. Operators whose results have sizes
// that follow from those of the operands are of ir.KindKept; the others, and those that draw random numbers, drive regions or
// handle sequences, are of ir.KindDynamic and carry the types of their results.
//
// A kernel for one of them is a row of a backend's table that claims nodes by their op's type.
//
// This package is not part of rlxc's public API and may change without notice.
package ops

import (
	"fmt"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func init() {
	ir.Register(
		ir.Def{Name: "onnx.Conv", Op: Conv{}, MinIn: 2, MaxIn: 3},
		ir.Def{Name: "onnx.ConvTranspose", Op: ConvTranspose{}, MinIn: 2, MaxIn: 3},
		ir.Def{Name: "onnx.Col2Im", Op: Col2Im{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.DeformConv", Op: DeformConv{}, MinIn: 3, MaxIn: 5},
		ir.Def{Name: "onnx.AveragePool", Op: AveragePool{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.LpPool", Op: LpPool{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.MaxPool", Op: MaxPool{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.LRN", Op: LRN{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.RoiAlign", Op: RoiAlign{}, MinIn: 3, MaxIn: 3},
		ir.Def{Name: "onnx.Resize", Op: Resize{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.GridSample", Op: GridSample{}, MinIn: 2, MaxIn: 2},
		ir.Def{Name: "onnx.NonMaxSuppression", Op: NonMaxSuppression{}, MinIn: 2, MaxIn: 5},

		ir.Def{Name: "onnx.RNN", Op: RNN{}, MinIn: 3, MaxIn: 6},
		ir.Def{Name: "onnx.GRU", Op: GRU{}, MinIn: 3, MaxIn: 6},
		ir.Def{Name: "onnx.LSTM", Op: LSTM{}, MinIn: 3, MaxIn: 8},
		ir.Def{Name: "onnx.LinearAttention", Op: LinearAttention{}, MinIn: 3, MaxIn: 6},

		ir.Def{Name: "onnx.DFT", Op: DFT{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.STFT", Op: STFT{}, MinIn: 1, MaxIn: 2},
		ir.Def{Name: "onnx.BitCast", Op: BitCast{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.CumProd", Op: CumProd{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.Det", Op: Det{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.TopK", Op: TopK{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.NonZero", Op: NonZero{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.Compress", Op: Compress{}, MinIn: 2, MaxIn: 2},
		ir.Def{Name: "onnx.Unique", Op: Unique{}, MinIn: 1, MaxIn: 1},

		ir.Def{Name: "onnx.RandomUniform", Op: RandomUniform{}, MinIn: 0, MaxIn: 1},
		ir.Def{Name: "onnx.RandomNormal", Op: RandomNormal{}, MinIn: 0, MaxIn: 1},
		ir.Def{Name: "onnx.Bernoulli", Op: Bernoulli{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.Multinomial", Op: Multinomial{}, MinIn: 1, MaxIn: 1},

		ir.Def{Name: "onnx.StringConcat", Op: StringConcat{}, MinIn: 2, MaxIn: 2},
		ir.Def{Name: "onnx.RegexFullMatch", Op: RegexFullMatch{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.StringSplit", Op: StringSplit{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.StringNormalizer", Op: StringNormalizer{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.TfIdfVectorizer", Op: TfIdfVectorizer{}, MinIn: 1, MaxIn: 1},

		ir.Def{Name: "ai.onnx.ml.Normalizer", Op: Normalizer{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "ai.onnx.ml.OneHotEncoder", Op: OneHotEncoder{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "ai.onnx.ml.LabelEncoder", Op: LabelEncoder{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "ai.onnx.ml.LinearClassifier", Op: LinearClassifier{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "ai.onnx.ml.LinearRegressor", Op: LinearRegressor{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "ai.onnx.ml.SVMClassifier", Op: SVMClassifier{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "ai.onnx.ml.SVMRegressor", Op: SVMRegressor{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "ai.onnx.ml.TreeEnsemble", Op: TreeEnsemble{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "ai.onnx.ml.TreeEnsembleClassifier", Op: TreeEnsembleClassifier{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "ai.onnx.ml.TreeEnsembleRegressor", Op: TreeEnsembleRegressor{}, MinIn: 1, MaxIn: 1},

		ir.Def{Name: "onnx.If", Op: If{}, MinIn: 1, MaxIn: -1},
		ir.Def{Name: "onnx.Loop", Op: Loop{}, MinIn: 2, MaxIn: -1},
		ir.Def{Name: "onnx.Scan", Op: Scan{}, MinIn: 1, MaxIn: -1},
		ir.Def{Name: "onnx.SequenceMap", Op: SequenceMap{}, MinIn: 1, MaxIn: -1},
		ir.Def{Name: "onnx.SequenceConstruct", Op: SequenceConstruct{}, MinIn: 0, MaxIn: -1},
		ir.Def{Name: "onnx.SequenceInsert", Op: SequenceInsert{}, MinIn: 2, MaxIn: 3},
		ir.Def{Name: "onnx.SequenceErase", Op: SequenceErase{}, MinIn: 1, MaxIn: 2},
		ir.Def{Name: "onnx.SequenceAt", Op: SequenceAt{}, MinIn: 2, MaxIn: 2},
		ir.Def{Name: "onnx.SequenceLength", Op: SequenceLength{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.SplitToSequence", Op: SplitToSequence{}, MinIn: 1, MaxIn: 2},
		ir.Def{Name: "onnx.ConcatFromSequence", Op: ConcatFromSequence{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.OptionalHasElement", Op: OptionalHasElement{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.OptionalGetElement", Op: OptionalGetElement{}, MinIn: 1, MaxIn: 1},
		ir.Def{Name: "onnx.Identity", Op: Identity{}, MinIn: 1, MaxIn: 1},
	)
}

// Kept is part of every operator whose results have sizes that follow from those of the operands.
type Kept struct{}

// Kind implements ir.Op.
func (Kept) Kind() ir.Kind { return ir.KindKept }

// Dynamic is part of every operator whose results have the types that were known when the node was made.
type Dynamic struct {
	Types []ir.Type `ir:"-"`
}

// Kind implements ir.Op.
func (Dynamic) Kind() ir.Kind { return ir.KindDynamic }

// Infer implements ir.Op.
func (d Dynamic) Infer([]*ir.Value) ([]ir.Type, error) { return d.Types, nil }

// MaxSize bounds what attributes may say of sizes, so that no product of a few of them overflows.
const MaxSize = 1 << 24

// results makes the tensors of what op returns for these operands.
func results(op ir.Op, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	values := make([]*ir.Value, len(in))
	for i, t := range in {
		if t != nil {
			values[i] = &ir.Value{Type: ir.TensorOf(t.DType(), ir.Dims(t.Shape()...)...)}
		}
	}
	types, err := op.Infer(values)
	if err != nil {
		return nil, err
	}
	out := make([]*tensor.Tensor, len(types))
	for i, t := range types {
		shape, ok := t.Static()
		if !ok {
			return nil, fmt.Errorf("the size of result %d, %v, is not known", i, t)
		}
		if _, err := shape.CheckElements(t.DType); err != nil {
			return nil, fmt.Errorf("result %d: %w", i, err)
		}
		out[i] = tensor.New(t.DType, shape...)
	}
	return out, nil
}

// result is results for an op that returns one tensor.
func result(op ir.Op, in []*tensor.Tensor) (*tensor.Tensor, error) {
	out, err := results(op, in)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// first returns the types of the results that a node lists; 0 stands for all.
func first(n int, types ...ir.Type) []ir.Type {
	if n > 0 && n < len(types) {
		return types[:n]
	}
	return types
}

// rank is the number of axes of a value.
func rank(v *ir.Value) int { return len(v.Type.Shape) }
