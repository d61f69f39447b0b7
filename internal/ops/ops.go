// Package ops has the opaque operators: those of ONNX without an op in the IR. Each is a type with a shape rule and a meaning, and
// prints its parameters as ops of the IR do. Those whose results have sizes that follow from data, that draw random numbers, drive
// subgraphs or handle sequences carry the types of their results.
//
// They run on the host. A backend with a kernel for one has a row for its kind, as for any other op.
package ops

import (
	"github.com/rlxc/rlxc/ir"
)

func init() {
	ir.Register(
		ir.Define("onnx.ConvTranspose", ConvTranspose{}, 2, 3, ir.Absorbs, convTransposeFlops, ir.NoRows),
		ir.Define("onnx.Col2Im", Col2Im{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.DeformConv", DeformConv{}, 3, 5, ir.Decides, convFlops, ir.NoRows),
		ir.Define("onnx.AveragePool", AveragePool{}, 1, 1, ir.Carries, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.LpPool", LpPool{}, 1, 1, ir.Carries, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.MaxPool", MaxPool{}, 1, 1, ir.Carries, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.LRN", LRN{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.RoiAlign", RoiAlign{}, 3, 3, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.MaxRoiPool", MaxRoiPool{}, 2, 2, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.Resize", Resize{}, 1, 1, ir.Carries, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.GridSample", GridSample{}, 2, 2, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.NonMaxSuppression", NonMaxSuppression{}, 2, 5, ir.Decides, ir.NoFlops, ir.NoRows),

		ir.Define("onnx.RNN", RNN{}, 3, 6, ir.Absorbs, recurrentFlops(1, 2), ir.NoRows),
		ir.Define("onnx.GRU", GRU{}, 3, 6, ir.Absorbs, recurrentFlops(3, 2), ir.NoRows),
		ir.Define("onnx.LSTM", LSTM{}, 3, 8, ir.Absorbs, recurrentFlops(4, 2), ir.NoRows),
		ir.Define("onnx.DynamicQuantizeLSTM", DynamicQuantizeLSTM{}, 3, 12, ir.Encodes, recurrentFlops(4, 1), ir.NoRows),
		ir.Define("onnx.LinearAttention", LinearAttention{}, 3, 6, ir.Decides, ir.NoFlops, ir.NoRows),

		ir.Define("onnx.DFT", DFT{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.STFT", STFT{}, 1, 2, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.BitCast", BitCast{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.CumProd", CumProd{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.Det", Det{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.TopK", TopK{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("com.microsoft.GatherPacked", GatherPacked{}, 2, 2, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.NonZero", NonZero{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("rlxc.Size", Size{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.Compress", Compress{}, 2, 2, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.Unique", Unique{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),

		ir.Define("onnx.RandomUniform", RandomUniform{}, 0, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.RandomNormal", RandomNormal{}, 0, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.Bernoulli", Bernoulli{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.Multinomial", Multinomial{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),

		ir.Define("onnx.StringConcat", StringConcat{}, 2, 2, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.RegexFullMatch", RegexFullMatch{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.StringSplit", StringSplit{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.StringNormalizer", StringNormalizer{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.Tokenizer", Tokenizer{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.TfIdfVectorizer", TfIdfVectorizer{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),

		ir.Define("ai.onnx.ml.Normalizer", Normalizer{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("ai.onnx.ml.OneHotEncoder", OneHotEncoder{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("ai.onnx.ml.LabelEncoder", LabelEncoder{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("ai.onnx.ml.LinearClassifier", LinearClassifier{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("ai.onnx.ml.LinearRegressor", LinearRegressor{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("ai.onnx.ml.SVMClassifier", SVMClassifier{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("ai.onnx.ml.SVMRegressor", SVMRegressor{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("ai.onnx.ml.TreeEnsemble", TreeEnsemble{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("ai.onnx.ml.TreeEnsembleClassifier", TreeEnsembleClassifier{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("ai.onnx.ml.TreeEnsembleRegressor", TreeEnsembleRegressor{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),

		ir.Define("onnx.If", If{}, 1, -1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.Loop", Loop{}, 2, -1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.Scan", Scan{}, 1, -1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.SequenceMap", SequenceMap{}, 1, -1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.SequenceConstruct", SequenceConstruct{}, 0, -1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.SequenceInsert", SequenceInsert{}, 2, 3, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.SequenceErase", SequenceErase{}, 1, 2, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.SequenceAt", SequenceAt{}, 2, 2, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.SequenceLength", SequenceLength{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.SplitToSequence", SplitToSequence{}, 1, 2, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.ConcatFromSequence", ConcatFromSequence{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.OptionalHasElement", OptionalHasElement{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.OptionalGetElement", OptionalGetElement{}, 1, 1, ir.Decides, ir.NoFlops, ir.NoRows),
		ir.Define("onnx.Identity", Identity{}, 1, 1, ir.Carries, ir.NoFlops, ir.NoRows),
	)
}

// Typed is part of every operator whose results have the types that were known when the node was made.
type Typed struct {
	Types []ir.Type `ir:"-"`
}

func (o Typed) Infer([]*ir.Value) ([]ir.Type, error) { return o.Types, nil }

// MaxSize bounds what attributes may say of sizes, so that no product of a few of them overflows.
const MaxSize = ir.MaxSize

// first returns the types of the results that a node lists; 0 stands for all.
func first(n int, types ...ir.Type) []ir.Type {
	if n > 0 && n < len(types) {
		return types[:n]
	}
	return types
}

// rank is the number of axes of a value.
func rank(v *ir.Value) int { return len(v.Type.Shape) }

// convFlops: every element of the result is a sum over the channels of a group and the taps.
func convFlops(n *ir.Node) ir.Dim {
	w := n.Inputs[1].Type.Shape
	return n.Outputs[0].Type.Shape.Elements().Mul(w[1:].Elements()).Mul(ir.N(2))
}

// convTransposeFlops: every element of x is spread over the channels of a group and the taps.
func convTransposeFlops(n *ir.Node) ir.Dim {
	return n.Inputs[0].Type.Shape.Elements().Mul(n.Inputs[1].Type.Shape[1:].Elements()).Mul(ir.N(2))
}

// recurrentFlops: every step of every sequence meets the weights of all gates, those of the inputs and those of the state.
func recurrentFlops(gates, hidden int) ir.FlopsRule {
	return func(n *ir.Node) ir.Dim {
		x, r := n.Inputs[RecurrentX].Type.Shape, n.Inputs[RecurrentR].Type.Shape
		return x[0].Mul(x[1]).Mul(r[0]).Mul(r[hidden]).Mul(x[2].Add(r[hidden])).Mul(ir.N(2 * gates))
	}
}
