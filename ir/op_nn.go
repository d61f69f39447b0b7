package ir

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

// Kind implements Op.
func (LayerNorm) Kind() Kind { return KindLayerNorm }

// Attention is softmax(Scale·q·kᵀ [capped: c·tanh(x/c)] + mask) · v for each head. q is [B,S,H,D]; k [B,T,G,D] and v [B,T,G,E], where G
// divides H and query head h uses head h/(H/G) (grouped-query attention); the result is [B,S,H,E]. All of them may be strided views. Operand 3, if present, broadcasts to
// [B,H,S,T]: floats are added to the scaled scores, bool false excludes the key. Causal excludes keys behind position
// s + T − S when Offset is set, and behind s otherwise; Window > 0 excludes keys Window or further away from the query.
//
// A row all of whose keys carry a finite mask value gives what the sums give, an average. A row whose keys are all
// excluded (score −∞) gives NaN, as softmax does, or 0 when NaNGuard.
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
)

// Kind implements Op.
func (Attention) Kind() Kind { return KindAttention }

// Rotary turns pairs of x [B,S,H,D] by angles whose cosines and sines are [B,S,R/2] or [1,S,R/2]: the first R elements of each head
// turn, the rest passes. Pairs are (i, i+R/2), or (2i, 2i+1) when Interleaved (RoPE, arXiv 2104.09864).
type Rotary struct{ Interleaved bool }

// Kind implements Op.
func (Rotary) Kind() Kind { return KindRotary }
