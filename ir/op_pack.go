package ir

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/rlxc/rlxc/tensor"
)

// Pack makes a packed batch: it concatenates the unmasked tokens of sequences. Operands: the attention mask [B,S], 1 for a token and 0
// for padding, and values [B,S,…] that are packed. Pack also includes the first position of each sequence, which heads read even if the
// mask hides it; then it is not a key. The number of tokens is only known in a run. It is rounded up (RoundTokens), so that runs of
// similar numbers share a plan; the tokens after the last are zeros. Instead of a mask, operand 0 may be the lengths [B] of sequences
// that begin at position 0. Then Pack includes exactly their tokens and does not round.
//
// Pack runs on the host, between two stages. The second stage is planned for the number of tokens. The results are
//
//	PackSequences    i32[B,4]      the queries and keys of each sequence, as first and end
//	PackFirst        i32[B]        the first token of each
//	PackFirstTokens  i32[B,4]      like PackSequences, with the first token as the only query of each sequence
//	PackPooled       i32[B,4]      like PackSequences, with one query and one key per sequence, for values after pooling
//	PackFlatIndices  i32[T]        the flat index b·S + s of each token; −1 for one that the mask hides
//	PackPositions    i64[1,T]      its position s
//	PackValues…      [1,T,…]       the operands after the mask
type Pack struct {
	// Positions is the number of positions for which the model has vectors, or 0 for any number. A token beyond is an error.
	Positions int
	// First makes a sequence an error if the mask hides its first position but not all others.
	First bool
	Types []Type `ir:"-"`
}

// The results of Pack.
const (
	PackSequences = iota
	PackFirst
	PackFirstTokens
	PackPooled
	PackFlatIndices
	PackPositions
	PackValues
)

// SequenceFields is the number of fields of a sequence in PackSequences.
const SequenceFields = 4

// NewPack returns the op that packs values by a mask or lengths, with the types of its results. tokens is the symbol for their number.
func NewPack(mask *Value, values []*Value, tokens Dim, positions int) Pack {
	batch := mask.Type.Shape[0]
	types := []Type{
		PackSequences: TensorOf(tensor.I32, batch, N(SequenceFields)), PackFirst: TensorOf(tensor.I32, batch),
		PackFirstTokens: TensorOf(tensor.I32, batch, N(SequenceFields)), PackPooled: TensorOf(tensor.I32, batch, N(SequenceFields)),
		PackFlatIndices: TensorOf(tensor.I32, tokens),
		PackPositions:   TensorOf(tensor.I64, N(1), tokens),
	}
	for _, v := range values {
		types = append(types, TensorOf(v.Type.DType, append(Shape{N(1), tokens}, v.Type.Shape[2:]...)...))
	}
	return Pack{Positions: positions, Types: types}
}

func (Pack) Kind() Kind { return KindPack }

func (o Pack) Infer(in []*Value) ([]Type, error) {
	for i, v := range in { // a file may say anything
		if v == nil || !v.Type.DType.Valid() || v.Type.DType == tensor.String || i == 0 && !v.Type.DType.IsInt() &&
			!v.Type.DType.IsFloat() && v.Type.DType != tensor.Bool {
			return nil, fmt.Errorf("operand %d cannot be packed", i)
		}
	}
	return o.Types, nil
}

// RoundTokens returns the number of tokens for which n tokens are planned: at most 1/32 more, or up to the next multiple of 8.
func RoundTokens(n int) int {
	step := max(8, 1<<max(0, bits.Len(uint(n))-6))
	return (n + step - 1) / step * step
}

func (o Pack) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	mask, lengths := in[0], in[0].Rank() == 1
	var err error
	if lengths {
		if mask, err = maskOfLengths(env, in); err != nil {
			return nil, err
		}
	}
	if mask.Rank() != 2 {
		return nil, fmt.Errorf("the attention mask is %v: want [batch, tokens]", mask)
	}
	if mask.Len() > math.MaxInt32 {
		return nil, fmt.Errorf("%d tokens: at most %d are packed", mask.Len(), math.MaxInt32)
	}
	for _, x := range in[1:] {
		if x == nil || x.Rank() < 2 || !x.Shape()[:2].Equal(mask.Shape()) || x.DType() == tensor.String {
			return nil, fmt.Errorf("%v beside a mask of %v", x, mask.Shape())
		}
	}
	count, length := mask.Shape()[0], mask.Shape()[1]
	indices := Make[int32](env, mask.Len())[:0]
	sequences, first := env.New(tensor.I32, count, SequenceFields), env.New(tensor.I32, count)
	firstTokens, each := env.New(tensor.I32, count, SequenceFields), env.New(tensor.I32, count, SequenceFields)
	sources := Make[int32](env, mask.Len())[:0] // of the tokens
	for b := range count {
		begin, key := len(indices), len(indices)
		for s := range length {
			at := b*length + s
			index := int32(at)
			switch m := mask.Float64(at); {
			case m == 1 && o.Positions > 0 && s >= o.Positions:
				return nil, fmt.Errorf("sequence %d has a token at position %d: the model has %d positions", b, s, o.Positions)
			case m == 1:
			case m != 0:
				return nil, fmt.Errorf("the attention mask of sequence %d is %v at position %d: want 0 or 1", b, m, s)
			case s > 0 || lengths:
				continue
			default:
				index, key = -1, key+1
			}
			indices, sources = append(indices, index), append(sources, int32(at))
		}
		if o.First && key > begin && key < len(indices) {
			return nil, fmt.Errorf("the attention mask of sequence %d hides its first token, which the model reads without attention: "+
				"put the padding on the right, or compile without unpad", b)
		}
		setSequence(sequences, b, begin, len(indices), key, len(indices))
		setSequence(firstTokens, b, b, b+1, key, len(indices))
		setSequence(each, b, b, b+1, b, b+1)
		first.SetInt64(b, int64(begin))
	}
	total := len(indices)
	if !lengths {
		total = min(RoundTokens(total), mask.Len())
	}
	out := []*tensor.Tensor{sequences, first, firstTokens, each, env.New(tensor.I32, total), env.New(tensor.I64, 1, total)}
	copy(tensor.Of[int32](out[PackFlatIndices]), indices)
	for t := len(indices); t < total; t++ {
		out[PackFlatIndices].SetInt64(t, -1)
	}
	for t, at := range sources {
		out[PackPositions].SetInt64(t, int64(at)%int64(length))
	}
	for _, x := range in[1:] {
		out = append(out, atFlatIndices(env, x, sources, total))
	}
	return out, nil
}

// maskOfLengths is the mask of sequences of these lengths, for values [B,S,…].
func maskOfLengths(env *Env, in []*tensor.Tensor) (*tensor.Tensor, error) {
	if len(in) < 2 || in[1] == nil || in[1].Rank() < 2 || in[1].Shape()[0] != in[0].Len() {
		return nil, fmt.Errorf("lengths of %d sequences without their values", in[0].Len())
	}
	count, length := in[0].Len(), in[1].Shape()[1]
	mask := env.New(tensor.I8, count, length)
	for b := range count {
		n := in[0].Int64(b)
		if n < 0 || n > int64(length) {
			return nil, fmt.Errorf("sequence %d has %d tokens, of %d", b, n, length)
		}
		for s := range int(n) {
			mask.SetInt64(b*length+s, 1)
		}
	}
	return mask, nil
}

// EvalPacked is Eval for a batch that is packed already: sequence i is the tokens from starts[i] to starts[i+1] of every value
// [tokens,…]. PackFlatIndices is −1 throughout.
func (o Pack) EvalPacked(env *Env, starts []int, values []*tensor.Tensor) ([]*tensor.Tensor, error) {
	count, n := len(starts)-1, starts[len(starts)-1]
	if n > math.MaxInt32 {
		return nil, fmt.Errorf("%d tokens: at most %d are packed", n, math.MaxInt32)
	}
	total := RoundTokens(n)
	sequences, first := env.New(tensor.I32, count, SequenceFields), env.New(tensor.I32, count)
	firstTokens, each := env.New(tensor.I32, count, SequenceFields), env.New(tensor.I32, count, SequenceFields)
	indices, positions := env.New(tensor.I32, total), env.New(tensor.I64, 1, total)
	for t := range total {
		indices.SetInt64(t, -1)
	}
	at := tensor.Of[int64](positions)
	for b := range count {
		begin, end := starts[b], starts[b+1]
		if o.Positions > 0 && end-begin > o.Positions {
			return nil, fmt.Errorf("sequence %d has %d tokens: the model has %d positions", b, end-begin, o.Positions)
		}
		setSequence(sequences, b, begin, end, begin, end)
		setSequence(firstTokens, b, b, b+1, begin, end)
		setSequence(each, b, b, b+1, b, b+1)
		first.SetInt64(b, int64(begin))
		for t := begin; t < end; t++ {
			at[t] = int64(t - begin)
		}
	}
	out := []*tensor.Tensor{sequences, first, firstTokens, each, indices, positions}
	for _, x := range values {
		y := env.New(x.DType(), append([]int{1, total}, x.Shape()[1:]...)...)
		copy(y.Bytes(), x.Bytes())
		out = append(out, y)
	}
	return out, nil
}

// setRow writes the fields of a sequence.
func setSequence(sequences *tensor.Tensor, r int, fields ...int) {
	for i, x := range fields {
		tensor.Of[int32](sequences)[r*SequenceFields+i] = int32(x)
	}
}

// atFlatIndices returns the slices of x [B,S,…] at flat indices, and zeros up to the total.
func atFlatIndices(env *Env, x *tensor.Tensor, indices []int32, total int) *tensor.Tensor {
	y := env.New(x.DType(), append(tensor.Shape{1, total}, x.Shape()[2:]...)...)
	width := x.DType().Bytes(x.Shape()[2:].Elements())
	from, to := x.Bytes(), y.Bytes()
	eachRun(indices, func(t, index, n int) { copy(to[t*width:][:n*width], from[index*width:][:n*width]) })
	return y
}

// eachRun calls f for each run of tokens with consecutive flat indices: tokens t to t+n−1 have the indices index to index+n−1.
func eachRun(indices []int32, f func(t, index, n int)) {
	for t := 0; t < len(indices); {
		n := 1
		for t+n < len(indices) && indices[t+n] == indices[t]+int32(n) {
			n++
		}
		if indices[t] >= 0 {
			f(t, int(indices[t]), n)
		}
		t += n
	}
}

// Unpack writes packed values [1,T,…] to their flat indices in [B,S,…], with zeros elsewhere. Operands: the values; PackFlatIndices,
// where negative indices are skipped; and the mask, or another value that begins with [B,S], for the sizes. It runs after the last stage,
// because the plan of that stage would otherwise depend on the length of padded sequences.
type Unpack struct{}

// The operands of Unpack.
const (
	UnpackX = iota
	UnpackFlatIndices
	UnpackMask
)

func (Unpack) Kind() Kind { return KindUnpack }

func (Unpack) Infer(in []*Value) ([]Type, error) {
	x, indices, mask := in[UnpackX].Type, in[UnpackFlatIndices].Type, in[UnpackMask].Type
	if len(x.Shape) < 2 || Same(x.Shape[0], N(1)) == No || x.DType == tensor.String || indices.DType != tensor.I32 ||
		len(indices.Shape) != 1 || Same(indices.Shape[0], x.Shape[1]) == No || len(mask.Shape) < 2 {
		return nil, fmt.Errorf("%v at %v of %v", x, indices, mask)
	}
	return []Type{TensorOf(x.DType, append(append(Shape{}, mask.Shape[:2]...), x.Shape[2:]...)...)}, nil
}

func (Unpack) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, index, mask := in[UnpackX], in[UnpackFlatIndices], in[UnpackMask]
	if x.Rank() < 2 || x.Shape()[0] != 1 || x.DType() == tensor.String || index.DType() != tensor.I32 || index.Len() != x.Shape()[1] ||
		mask.Rank() < 2 {
		return nil, fmt.Errorf("%v at positions %v of %v", x, index, mask)
	}
	indices, sizes := tensor.Of[int32](index), mask.Shape()[:2]
	y := env.New(x.DType(), append(sizes.Clone(), x.Shape()[2:]...)...)
	width := x.DType().Bytes(x.Shape()[2:].Elements())
	from, to := x.Bytes(), y.Bytes()
	for _, p := range indices {
		if most := sizes.Elements(); int(p) >= most {
			return nil, fmt.Errorf("position %d of %d", p, most)
		}
	}
	eachRun(indices, func(t, index, n int) { copy(to[index*width:][:n*width], from[t*width:][:n*width]) })
	return []*tensor.Tensor{y}, nil
}

// sequencesOf reads the sequences that Pack lists, and checks that they are within the tokens.
func sequencesOf(sequences *tensor.Tensor, queries, keys int) ([][SequenceFields]int, error) {
	out := make([][SequenceFields]int, sequences.Shape()[0])
	for r := range out {
		for i := range out[r] {
			out[r][i] = int(sequences.Int64(r*SequenceFields + i))
		}
		if x := out[r]; x[0] < 0 || x[1] < x[0] || x[1] > queries || x[2] < 0 || x[3] < x[2] || x[3] > keys {
			return nil, fmt.Errorf("sequence %d is %v, of %d queries and %d keys", r, x, queries, keys)
		}
	}
	return out, nil
}

// SumSequences sums the tokens of each sequence: y[r,…] = Σ x[0,t,…] over the queries t of sequence r, which operand 1 lists as
// PackSequences does. Pooling over the tokens of a sequence becomes SumSequences.
type SumSequences struct {
	// Largest takes the largest of the floats instead of their sum: NaN if one is, and −∞ if there is none.
	Largest bool
}

func (SumSequences) Kind() Kind { return KindSumSequences }

func (o SumSequences) Infer(in []*Value) ([]Type, error) {
	x, sequences := in[0].Type, in[1].Type
	if len(x.Shape) < 2 || Same(x.Shape[0], N(1)) == No || !x.DType.IsFloat() && (o.Largest || !x.DType.IsInt()) ||
		sequences.DType != tensor.I32 || len(sequences.Shape) != 2 || Same(sequences.Shape[1], N(SequenceFields)) == No {
		return nil, fmt.Errorf("sums of %v over sequences %v", x, sequences)
	}
	return []Type{TensorOf(x.DType, append(Shape{sequences.Shape[0]}, x.Shape[2:]...)...)}, nil
}

func (o SumSequences) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x := in[0]
	sequences, err := sequencesOf(in[1], x.Shape()[1], x.Shape()[1])
	if err != nil {
		return nil, err
	}
	width := x.Shape()[2:].Elements()
	y := env.New(x.DType(), append(tensor.Shape{len(sequences)}, x.Shape()[2:]...)...)
	for r, sequence := range sequences {
		for i := range width {
			if !x.DType().IsFloat() {
				var s int64
				for t := sequence[0]; t < sequence[1]; t++ {
					s += x.Int64(t*width + i)
				}
				y.SetInt64(r*width+i, s)
				continue
			}
			s := 0.0
			if o.Largest {
				s = math.Inf(-1)
			}
			for t := sequence[0]; t < sequence[1]; t++ {
				if v := x.Float64(t*width + i); o.Largest {
					s = max(s, v)
				} else {
					s += v
				}
			}
			y.SetFloat64(r*width+i, s)
		}
	}
	return []*tensor.Tensor{y}, nil
}
