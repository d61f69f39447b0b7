package ir

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/tensor"
)

// LayerNorm normalises over the last Axes axes: y = (s − mean(s)) / sqrt(var(s) + Eps) · scale + bias with s = x + residual,
// or s / sqrt(mean(s²) + Eps) · scale when RMS. Operands: x, scale or nil, bias or nil (both broadcast to the normalised
// axes), residual of x's shape or nil. With Sum the second result is s. Sums are taken in float32 or better whatever the
// type.
type LayerNorm struct {
	Axes int
	Eps  float32
	RMS  bool
	Sum  bool
}

// The operand positions of LayerNorm.
const (
	LayerNormX = iota
	LayerNormScale
	LayerNormBias
	LayerNormResidual
)

func (LayerNorm) Kind() Kind { return KindLayerNorm }

func (o LayerNorm) Infer(in []*Value) ([]Type, error) {
	x := in[LayerNormX].Type
	if !x.DType.IsFloat() {
		return nil, fmt.Errorf("layernorm is not defined for %s", x.DType)
	}
	if o.Axes < 1 || o.Axes > len(x.Shape) {
		return nil, fmt.Errorf("the last %d axes of %v", o.Axes, x)
	}
	to := x.Shape[len(x.Shape)-o.Axes:]
	for _, i := range []int{LayerNormScale, LayerNormBias} {
		if v := Operand(in, i); v != nil && (v.Type.DType != x.DType || broadcastsTo(v.Type.Shape, to) != nil) {
			return nil, fmt.Errorf("operand %d, %v, does not fit %v of %s", i, v.Type, to, x.DType)
		}
	}
	if err := checkResidual(Operand(in, LayerNormResidual), x); err != nil {
		return nil, err
	}
	if o.Sum {
		return []Type{x, x}, nil
	}
	return []Type{x}, nil
}

// broadcastsTo refuses a shape that cannot be stretched to another.
func broadcastsTo(s, to Shape) error {
	off := len(to) - len(s)
	for i, d := range s {
		if off < 0 || stretches(d, to[off+i]) == No {
			return fmt.Errorf("%v does not broadcast to %v", s, to)
		}
	}
	return nil
}

func (o LayerNorm) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x := in[LayerNormX]
	scale, bias, residual := Operand(in, LayerNormScale), Operand(in, LayerNormBias), Operand(in, LayerNormResidual)
	norm := x.Shape()[x.Rank()-o.Axes:]
	n := norm.Elements()
	at := func(t *tensor.Tensor) func(int) float64 {
		index := broadcastIndex(t.Shape(), norm)
		return func(i int) float64 { return t.Float64(index(i)) }
	}
	y, s := env.New(x.DType(), x.Shape()...), env.Float64s(x)
	if residual != nil {
		for i := range s {
			s[i] += residual.Float64(i)
		}
	}
	for start := 0; start < len(s); start += n {
		env.Work(4 * n)
		row := s[start : start+n]
		mean := 0.0
		if !o.RMS {
			mean = sum(slices.Values(row)) / float64(n)
		}
		variance := sum(each(slices.Values(row), func(v float64) float64 { return square(v - mean) })) / float64(n)
		for i, v := range row {
			v = (v - mean) / math.Sqrt(variance+float64(o.Eps))
			if scale != nil {
				v *= at(scale)(i)
			}
			if bias != nil {
				v += at(bias)(i)
			}
			y.SetFloat64(start+i, v)
		}
	}
	if !o.Sum {
		return []*tensor.Tensor{y}, nil
	}
	total := env.New(x.DType(), x.Shape()...)
	for i, v := range s {
		total.SetFloat64(i, v)
	}
	return []*tensor.Tensor{y, total}, nil
}

// Attention is softmax(Scale·q·kᵀ [capped: c·tanh(x/c)] + mask) · v for each head. q is [B,S,H,D]; k [B,T,G,D] and v [B,T,G,E], where G
// divides H and query head h uses head h/(H/G) (grouped-query attention); the result is [B,S,H,E]. All of them may be strided views.
// Operand 3, if present, broadcasts to [B,H,S,T]: floats are added to the scaled scores, and bool false excludes the key. Causal excludes
// keys after position s + T − S when Offset is set, and after s otherwise. Window > 0 excludes keys Window or further away from that
// position, on either side.
//
// A query whose keys all have a finite mask value becomes the average that the sums are. A query whose keys are all excluded (score −∞)
// becomes NaN, as in softmax, or 0 when NaNGuard.
//
// Operand 4, if present, lists the sequences of a packed batch, as Pack returns it (B is 1 then): i32 [R,4], the queries and the keys of
// each sequence, as first and end. The queries of a sequence read its keys. Queries without keys, or in no sequence, return 0. Operand 5
// is the position of each key in its sequence, i64 [1,T], ascending within a sequence. With it, Causal and Window compare positions, and
// operand 3 broadcasts to [R,H,P,P], by sequence and the positions of query and key. If queries differ by their positions, S is T, and
// the positions are those of the queries too.
//
// Operands 6 to 9, which require positions, are scores by relative position (DeBERTa, arXiv 2006.03654): [1,H,S,N] of the type of q and
// i64 [P,P], in pairs. They are added to the scaled scores of the query at position s and the key at t. The first pair adds the query's
// score number indices[s,t], of N. The second pair adds the key's score number indices[t,s]. Negative indices count from the end.
type Attention struct {
	Scale    float32
	Softcap  float32
	Causal   bool
	Offset   bool
	Window   int
	NaNGuard bool
}

// The operand positions of Attention.
const (
	AttentionQ = iota
	AttentionK
	AttentionV
	AttentionMask
	AttentionSequences
	AttentionPositions
	AttentionQueryScores
	AttentionQueryIndex
	AttentionKeyScores
	AttentionKeyIndex
)

func (Attention) Kind() Kind { return KindAttention }

func (o Attention) Infer(in []*Value) ([]Type, error) {
	q, k, v := in[AttentionQ].Type, in[AttentionK].Type, in[AttentionV].Type
	if !q.DType.IsFloat() || k.DType != q.DType || v.DType != q.DType {
		return nil, fmt.Errorf("attention of %s, %s and %s", q.DType, k.DType, v.DType)
	}
	if len(q.Shape) != 4 || len(k.Shape) != 4 || len(v.Shape) != 4 {
		return nil, fmt.Errorf("attention of %v, %v and %v: each needs four axes", q, k, v)
	}
	differ := func(a, b Dim) bool { return Same(a, b) == No }
	switch {
	case differ(q.Shape[0], k.Shape[0]) || differ(k.Shape[0], v.Shape[0]):
		return nil, fmt.Errorf("attention of %v, %v and %v: axis 0 differs", q, k, v)
	case differ(k.Shape[1], v.Shape[1]) || differ(k.Shape[2], v.Shape[2]):
		return nil, fmt.Errorf("keys %v do not match values %v", k, v)
	case differ(q.Shape[3], k.Shape[3]):
		return nil, fmt.Errorf("heads of queries %v and keys %v differ in size", q, k)
	}
	heads, ok1 := q.Shape[2].Const()
	groups, ok2 := k.Shape[2].Const()
	if ok1 && ok2 && (groups == 0 || heads%groups != 0) {
		return nil, fmt.Errorf("%d query heads cannot share %d heads of keys", heads, groups)
	}
	if m := Operand(in, AttentionMask); m != nil {
		if m.Type.DType != q.DType && m.Type.DType != tensor.Bool {
			return nil, fmt.Errorf("mask %v is neither bool nor %s", m.Type, q.DType)
		}
		to := Shape{q.Shape[0], q.Shape[2], q.Shape[1], k.Shape[1]}
		if s, rows := m.Type.Shape, Operand(in, AttentionSequences); rows != nil && len(rows.Type.Shape) > 0 {
			to[0] = rows.Type.Shape[0]
			copy(to[4-min(2, len(s)):], s[max(0, len(s)-2):])
		}
		if err := broadcastsTo(m.Type.Shape, to); err != nil {
			return nil, fmt.Errorf("mask: %w", err)
		}
	}
	if Operand(in, AttentionSequences) != nil {
		if err := o.inferPacked(in); err != nil {
			return nil, err
		}
	}
	return []Type{TensorOf(q.DType, q.Shape[0], q.Shape[1], q.Shape[2], v.Shape[3])}, nil
}

// sees reports whether the query at position s of S may look at key t of T.
func (o Attention) sees(s, t, S, T int) bool {
	if o.Offset {
		s += T - S
	}
	return !(o.Causal && t > s) && !(o.Window > 0 && max(t-s, s-t) >= o.Window)
}

func (o Attention) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if rows := Operand(in, AttentionSequences); rows != nil {
		return o.evalPacked(env, in, rows)
	}
	q, k, v, mask := in[AttentionQ], in[AttentionK], in[AttentionV], Operand(in, AttentionMask)
	B, S, H, D := q.Shape()[0], q.Shape()[1], q.Shape()[2], q.Shape()[3]
	T, G, E := k.Shape()[1], k.Shape()[2], v.Shape()[3]
	y := env.New(q.DType(), B, S, H, E)
	maskAt := func(int) int { return 0 }
	if mask != nil {
		maskAt = broadcastIndex(mask.Shape(), tensor.Shape{B, H, S, T})
	}
	qf, kf, vf := env.Float64s(q), env.Float64s(k), env.Float64s(v)
	scores, out := Make[float64](env, T), Make[float64](env, E)
	row := func(b, s, h int) []float64 {
		env.Work(T * (D + E))
		query := qf[((b*S+s)*H+h)*D:][:D]
		g := h / (H / G)
		clear(scores)
		for t := range scores {
			key := kf[((b*T+t)*G+g)*D:][:D]
			for i := range query {
				scores[t] += query[i] * key[i]
			}
			scores[t] *= float64(o.Scale)
			if c := float64(o.Softcap); c != 0 {
				scores[t] = c * math.Tanh(scores[t]/c)
			}
			if mask != nil {
				m := mask.Float64(maskAt(((b*H+h)*S+s)*T + t))
				if mask.DType() == tensor.Bool {
					m = math.Log(m) // 0 or −∞
				}
				scores[t] += m
			}
			if !o.sees(s, t, S, T) {
				scores[t] = math.Inf(-1)
			}
		}
		clear(out)
		if o.NaNGuard && (T == 0 || math.IsInf(slices.Max(scores), -1)) {
			return out
		}
		softmax(scores, false)
		for t, p := range scores {
			for i, x := range vf[((b*T+t)*G+g)*E:][:E] {
				out[i] += p * x
			}
		}
		return out
	}
	for b := range B {
		for s := range S {
			for h := range H {
				for i, x := range row(b, s, h) {
					y.SetFloat64(((b*S+s)*H+h)*E+i, x)
				}
			}
		}
	}
	return []*tensor.Tensor{y}, nil
}

// Rotary rotates pairs of x [B,S,H,D] by angles whose cosines and sines are [B,S,R/2] or [1,S,R/2]. It rotates the first R elements of
// each head and copies the rest. Pairs are (i, i+R/2), or (2i, 2i+1) when Interleaved (RoPE, arXiv 2104.09864).
type Rotary struct{ Interleaved bool }

func (Rotary) Kind() Kind { return KindRotary }

func (o Rotary) Infer(in []*Value) ([]Type, error) {
	x, cos, sin := in[0].Type, in[1].Type, in[2].Type
	if !x.DType.IsFloat() || cos.DType != x.DType || sin.DType != x.DType {
		return nil, fmt.Errorf("rotary of %s by %s and %s", x.DType, cos.DType, sin.DType)
	}
	if len(x.Shape) != 4 || len(cos.Shape) != 3 || len(sin.Shape) != 3 {
		return nil, fmt.Errorf("rotary of %v by %v and %v: four axes and twice three are needed", x, cos, sin)
	}
	for i, d := range cos.Shape {
		fits := LessEqual(d.Add(d), x.Shape[3]) != No
		switch i {
		case 0:
			fits = stretches(d, x.Shape[0]) != No
		case 1:
			fits = Same(d, x.Shape[1]) != No
		}
		if !fits || Same(d, sin.Shape[i]) == No {
			return nil, fmt.Errorf("angles %v and %v do not fit %v on axis %d", cos, sin, x, i)
		}
	}
	return []Type{x}, nil
}

func (o Rotary) Eval(env *Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x, cos, sin := in[0], in[1], in[2]
	y := env.Clone(x)
	half, heads, size := cos.Shape()[2], x.Shape()[2], x.Shape()[3]
	angles := cos.Shape()[0] * cos.Shape()[1] // one row for each position, or for each of all the batch's
	for pos := range x.Shape()[0] * x.Shape()[1] {
		for h := range heads {
			env.Work(half)
			head := (pos*heads + h) * size
			for i := range half {
				a, b := head+i, head+i+half
				if o.Interleaved {
					a, b = head+2*i, head+2*i+1
				}
				at := pos%angles*half + i
				c, s := cos.Float64(at), sin.Float64(at)
				u, v := x.Float64(a), x.Float64(b)
				y.SetFloat64(a, c*u-s*v)
				y.SetFloat64(b, s*u+c*v)
			}
		}
	}
	return []*tensor.Tensor{y}, nil
}
