package ir

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/rlxc/rlxc/tensor"
)

// Pack leaves the padding of texts out: their tokens lie one after the other, text by text. Operands: the attention mask [B,S],
// 1 for a token and 0 for padding, and values [B,S,…] that are packed. Of a text it keeps what the mask keeps and the first position, which
// heads read whatever the mask says; where the mask hides that one it is no key. The number of tokens is only known in a run. It
// is rounded up (RoundTokens), so that runs of about as many tokens share a plan; the tokens after the last are zeros. In place of the mask
// may be the lengths of texts that begin at position 0, [B]: then it keeps their tokens and nothing else, and does not round.
//
// It runs on the host, between two stages: the second is planned for the number of tokens. Its results are
//
//	PackRows       i32[B,4]      the queries and keys of each text, as first and end
//	PackFirst      i32[B]        its first token
//	PackFirstRows  i32[B,4]      like PackRows, where the only query of each text is its first token
//	PackTexts      i32[B,4]      like PackRows, where a text is one query and one key: of values that have one row for each
//	PackPlaces     i32[T]        the place b·S + s of each token; −1 for one that the mask hides
//	PackPositions  i64[1,T]      its position s
//	PackValues…    [1,T,…]       the operands after the mask
type Pack struct {
	// Positions is the number of positions that the model has vectors for, 0 for any: a token beyond is an error.
	Positions int
	// First: a text whose mask hides the first position, and not all others as well, is an error.
	First bool
	Types []Type `ir:"-"`
}

// The results of Pack.
const (
	PackRows = iota
	PackFirst
	PackFirstRows
	PackTexts
	PackPlaces
	PackPositions
	PackValues
)

// RowFields is the number of fields of a text in PackRows.
const RowFields = 4

// NewPack is the op that packs values by a mask or lengths, with the types of its results; tokens is the symbol for their number.
func NewPack(mask *Value, values []*Value, tokens Dim, positions int) Pack {
	batch := mask.Type.Shape[0]
	types := []Type{
		PackRows: TensorOf(tensor.I32, batch, N(RowFields)), PackFirst: TensorOf(tensor.I32, batch),
		PackFirstRows: TensorOf(tensor.I32, batch, N(RowFields)), PackTexts: TensorOf(tensor.I32, batch, N(RowFields)),
		PackPlaces:    TensorOf(tensor.I32, tokens),
		PackPositions: TensorOf(tensor.I64, N(1), tokens),
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

// RoundTokens is the number of tokens that n are planned as: at most 1/32 more, or up to the next multiple of 8.
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
	texts, length := mask.Shape()[0], mask.Shape()[1]
	places := Make[int32](env, mask.Len())[:0]
	rows, first, firstRows := env.New(tensor.I32, texts, RowFields), env.New(tensor.I32, texts), env.New(tensor.I32, texts, RowFields)
	each := env.New(tensor.I32, texts, RowFields)
	sources := Make[int32](env, mask.Len())[:0] // of the tokens
	for b := range texts {
		begin, key := len(places), len(places)
		for s := range length {
			at := b*length + s
			place := int32(at)
			switch m := mask.Float64(at); {
			case m == 1 && o.Positions > 0 && s >= o.Positions:
				return nil, fmt.Errorf("sequence %d has a token at position %d: the model has %d positions", b, s, o.Positions)
			case m == 1:
			case m != 0:
				return nil, fmt.Errorf("the attention mask of sequence %d is %v at position %d: want 0 or 1", b, m, s)
			case s > 0 || lengths:
				continue
			default:
				place, key = -1, key+1
			}
			places, sources = append(places, place), append(sources, int32(at))
		}
		if o.First && key > begin && key < len(places) {
			return nil, fmt.Errorf("the attention mask of sequence %d hides its first token, which the model reads without attention: "+
				"put the padding on the right, or compile without unpad", b)
		}
		setRow(rows, b, begin, len(places), key, len(places))
		setRow(firstRows, b, b, b+1, key, len(places))
		setRow(each, b, b, b+1, b, b+1)
		first.SetInt64(b, int64(begin))
	}
	total := len(places)
	if !lengths {
		total = min(RoundTokens(total), mask.Len())
	}
	out := []*tensor.Tensor{rows, first, firstRows, each, env.New(tensor.I32, total), env.New(tensor.I64, 1, total)}
	copy(tensor.Of[int32](out[PackPlaces]), places)
	for t := len(places); t < total; t++ {
		out[PackPlaces].SetInt64(t, -1)
	}
	for t, at := range sources {
		out[PackPositions].SetInt64(t, int64(at)%int64(length))
	}
	for _, x := range in[1:] {
		out = append(out, atPlaces(env, x, sources, total))
	}
	return out, nil
}

// maskOfLengths is the mask of texts of these lengths beside values [B,S,…].
func maskOfLengths(env *Env, in []*tensor.Tensor) (*tensor.Tensor, error) {
	if len(in) < 2 || in[1] == nil || in[1].Rank() < 2 || in[1].Shape()[0] != in[0].Len() {
		return nil, fmt.Errorf("lengths of %d sequences without their values", in[0].Len())
	}
	texts, length := in[0].Len(), in[1].Shape()[1]
	mask := env.New(tensor.I8, texts, length)
	for b := range texts {
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

// Rows is Eval for texts without padding that lie one after the other already: text i is the tokens from starts[i] to starts[i+1] of every
// value [tokens,…]. PackPlaces has nowhere to lead, and is −1 throughout.
func (o Pack) Rows(env *Env, starts []int, values []*tensor.Tensor) ([]*tensor.Tensor, error) {
	texts, n := len(starts)-1, starts[len(starts)-1]
	if n > math.MaxInt32 {
		return nil, fmt.Errorf("%d tokens: at most %d are packed", n, math.MaxInt32)
	}
	total := RoundTokens(n)
	rows, first, firstRows := env.New(tensor.I32, texts, RowFields), env.New(tensor.I32, texts), env.New(tensor.I32, texts, RowFields)
	each := env.New(tensor.I32, texts, RowFields)
	places, positions := env.New(tensor.I32, total), env.New(tensor.I64, 1, total)
	for t := range total {
		places.SetInt64(t, -1)
	}
	at := tensor.Of[int64](positions)
	for b := range texts {
		begin, end := starts[b], starts[b+1]
		if o.Positions > 0 && end-begin > o.Positions {
			return nil, fmt.Errorf("sequence %d has %d tokens: the model has %d positions", b, end-begin, o.Positions)
		}
		setRow(rows, b, begin, end, begin, end)
		setRow(firstRows, b, b, b+1, begin, end)
		setRow(each, b, b, b+1, b, b+1)
		first.SetInt64(b, int64(begin))
		for t := begin; t < end; t++ {
			at[t] = int64(t - begin)
		}
	}
	out := []*tensor.Tensor{rows, first, firstRows, each, places, positions}
	for _, x := range values {
		y := env.New(x.DType(), append([]int{1, total}, x.Shape()[1:]...)...)
		copy(y.Bytes(), x.Bytes())
		out = append(out, y)
	}
	return out, nil
}

// setRow writes the fields of a text.
func setRow(rows *tensor.Tensor, r int, fields ...int) {
	for i, x := range fields {
		tensor.Of[int32](rows)[r*RowFields+i] = int32(x)
	}
}

// atPlaces is x [B,S,…] at these places, and zeros up to the total.
func atPlaces(env *Env, x *tensor.Tensor, places []int32, total int) *tensor.Tensor {
	y := env.New(x.DType(), append(tensor.Shape{1, total}, x.Shape()[2:]...)...)
	width := x.DType().Bytes(x.Shape()[2:].Elements())
	from, to := x.Bytes(), y.Bytes()
	eachRun(places, func(t, place, n int) { copy(to[t*width:][:n*width], from[place*width:][:n*width]) })
	return y
}

// eachRun calls f for each run of n tokens from t on that lie side by side, from a place on.
func eachRun(places []int32, f func(t, place, n int)) {
	for t := 0; t < len(places); {
		n := 1
		for t+n < len(places) && places[t+n] == places[t]+int32(n) {
			n++
		}
		if places[t] >= 0 {
			f(t, int(places[t]), n)
		}
		t += n
	}
}

// Unpack puts packed values [1,T,…] back to their flat indices of [B,S,…], with zeros elsewhere. Operands: the values, PackPlaces, where a
// negative one is none, and the mask, or another value that begins with [B,S]: it needs their sizes. It runs after the last stage: in the
// plan of that, every length of padded sequences would be planned.
type Unpack struct{}

// The operands of Unpack.
const (
	UnpackX = iota
	UnpackPlaces
	UnpackMask
)

func (Unpack) Kind() Kind { return KindUnpack }

func (Unpack) Infer(in []*Value) ([]Type, error) {
	x, places, mask := in[UnpackX].Type, in[UnpackPlaces].Type, in[UnpackMask].Type
	if len(x.Shape) < 2 || Same(x.Shape[0], N(1)) == No || x.DType == tensor.String || places.DType != tensor.I32 ||
		len(places.Shape) != 1 || Same(places.Shape[0], x.Shape[1]) == No || len(mask.Shape) < 2 {
		return nil, fmt.Errorf("%v at %v of %v", x, places, mask)
	}
	return []Type{TensorOf(x.DType, append(append(Shape{}, mask.Shape[:2]...), x.Shape[2:]...)...)}, nil
}

func (Unpack) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, index, mask := in[UnpackX], in[UnpackPlaces], in[UnpackMask]
	if x.Rank() < 2 || x.Shape()[0] != 1 || x.DType() == tensor.String || index.DType() != tensor.I32 || index.Len() != x.Shape()[1] ||
		mask.Rank() < 2 {
		return nil, fmt.Errorf("%v at positions %v of %v", x, index, mask)
	}
	places, sequences := tensor.Of[int32](index), mask.Shape()[:2]
	y := env.New(x.DType(), append(sequences.Clone(), x.Shape()[2:]...)...)
	width := x.DType().Bytes(x.Shape()[2:].Elements())
	from, to := x.Bytes(), y.Bytes()
	for _, p := range places {
		if most := sequences.Elements(); int(p) >= most {
			return nil, fmt.Errorf("position %d of %d", p, most)
		}
	}
	eachRun(places, func(t, place, n int) { copy(to[place*width:][:n*width], from[t*width:][:n*width]) })
	return []*tensor.Tensor{y}, nil
}

// textsOf reads rows as Pack writes them, and holds them to the tokens that there are.
func textsOf(rows *tensor.Tensor, queries, keys int) ([][RowFields]int, error) {
	out := make([][RowFields]int, rows.Shape()[0])
	for r := range out {
		for i := range out[r] {
			out[r][i] = int(rows.Int64(r*RowFields + i))
		}
		if x := out[r]; x[0] < 0 || x[1] < x[0] || x[1] > queries || x[2] < 0 || x[3] < x[2] || x[3] > keys {
			return nil, fmt.Errorf("sequence %d is %v, of %d queries and %d keys", r, x, queries, keys)
		}
	}
	return out, nil
}

// SumRows adds up the tokens of each text: y[r,…] = Σ x[0,t,…] over the queries t of row r, which operand 1, a result of PackRows, lists.
// It is what a pooling over the tokens of a text becomes.
type SumRows struct{}

func (SumRows) Kind() Kind { return KindSumRows }

func (SumRows) Infer(in []*Value) ([]Type, error) {
	x, rows := in[0].Type, in[1].Type
	if len(x.Shape) < 2 || Same(x.Shape[0], N(1)) == No || rows.DType != tensor.I32 || len(rows.Shape) != 2 ||
		Same(rows.Shape[1], N(RowFields)) == No {
		return nil, fmt.Errorf("sums of %v over sequences %v", x, rows)
	}
	return []Type{TensorOf(x.DType, append(Shape{rows.Shape[0]}, x.Shape[2:]...)...)}, nil
}

func (SumRows) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x := in[0]
	texts, err := textsOf(in[1], x.Shape()[1], x.Shape()[1])
	if err != nil {
		return nil, err
	}
	width := x.Shape()[2:].Elements()
	y := env.New(x.DType(), append(tensor.Shape{len(texts)}, x.Shape()[2:]...)...)
	for r, text := range texts {
		for i := range width {
			if !x.DType().IsFloat() {
				var s int64
				for t := text[0]; t < text[1]; t++ {
					s += x.Int64(t*width + i)
				}
				y.SetInt64(r*width+i, s)
				continue
			}
			s := 0.0
			for t := text[0]; t < text[1]; t++ {
				s += x.Float64(t*width + i)
			}
			y.SetFloat64(r*width+i, s)
		}
	}
	return []*tensor.Tensor{y}, nil
}
