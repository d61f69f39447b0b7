package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// LinearAttention is attention without a softmax, as a recurrence over a state [batch, heads, Dk, Dv] for each group of heads. Each step
// multiplies the state by a decay, adds k ⊗ v, and multiplies q by the state. The delta rule first subtracts from v the value that the
// state has for k, and multiplies the difference by beta (Yang et al. 2024, Gated Delta Networks). The operands are q, k, v [batch, steps,
// heads·D], the state before, decay and beta.
type LinearAttention struct {
	ir.Opaque[LinearAttention]
	QHeads  int     `ir:"q_num_heads"`
	KVHeads int     `ir:"kv_num_heads"`
	Scale   float32 // 0: 1/√Dk
	Results int
}

func (o LinearAttention) Infer(in []*ir.Value) ([]ir.Type, error) {
	q, k, v := in[0].Type, in[1].Type, in[2].Type
	if len(q.Shape) != 3 || len(k.Shape) != 3 || len(v.Shape) != 3 || o.QHeads < 1 || o.KVHeads < 1 || o.QHeads%o.KVHeads != 0 ||
		o.QHeads > MaxSize {
		return nil, fmt.Errorf("%v, %v and %v in %d and %d heads", q, k, v, o.QHeads, o.KVHeads)
	}
	heads := ir.N(o.KVHeads)
	dk, dv := k.Shape[2].Div(heads), v.Shape[2].Div(heads)
	state := ir.TensorOf(q.DType, q.Shape[0], heads, dk, dv)
	if past := ir.Operand(in, 3); past != nil {
		state.DType = past.Type.DType
	}
	return first(o.Results, ir.TensorOf(q.DType, q.Shape[0], q.Shape[1], dv.Mul(ir.N(o.QHeads))), state), nil
}

func (o LinearAttention) Eval(env *ir.Env, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	listed := o.Results
	o.Results = 0 // the state is needed in any case
	out := env.Outputs(o, in)
	r := linearState{q: in[0], k: in[1], v: in[2], past: ir.Operand(in, 3), decay: ir.Operand(in, 4), beta: ir.Operand(in, 5),
		qh: o.QHeads, kh: o.KVHeads, dk: out[1].Shape()[2], dv: out[1].Shape()[3], scale: float64(o.Scale)}
	if err := r.run(env, out[0], out[1]); err != nil {
		return nil, err
	}
	if listed == 1 {
		out = out[:1]
	}
	return out, nil
}

type linearState struct {
	q, k, v, past, decay, beta *tensor.Tensor
	qh, kh, dk, dv             int
	scale                      float64
}

func (r linearState) run(env *ir.Env, y, present *tensor.Tensor) error {
	batch, steps := r.q.Shape()[0], r.q.Shape()[1]
	if r.scale == 0 {
		r.scale = 1 / math.Sqrt(float64(r.dk))
	}
	fits := r.q.Shape()[2] == r.qh*r.dk && slices.Equal(r.k.Shape(), tensor.Shape{batch, steps, r.kh * r.dk}) &&
		slices.Equal(r.v.Shape(), tensor.Shape{batch, steps, r.kh * r.dv})
	decays, betas := 0, 0 // along the last axis
	if r.decay != nil {
		decays = r.decay.Shape()[len(r.decay.Shape())-1]
		fits = fits && r.decay.Len() == batch*steps*decays && (decays == r.kh || decays == r.kh*r.dk)
	}
	if r.beta != nil {
		betas = r.beta.Shape()[len(r.beta.Shape())-1]
		fits = fits && r.beta.Len() == batch*steps*betas && (betas == r.kh || betas == 1)
	}
	if !fits || r.past != nil && !r.past.Shape().Equal(present.Shape()) {
		return fmt.Errorf("query %v, key %v, value %v, state %v, decay %v, beta %v in %d and %d heads do not fit", r.q, r.k, r.v, r.past,
			r.decay, r.beta, r.qh, r.kh)
	}
	group := r.qh / r.kh
	state, write := ir.Make[float64](env, r.dk*r.dv), ir.Make[float64](env, r.dv)
	for b := range batch {
		for h := range r.kh {
			base := (b*r.kh + h) * len(state)
			for i := range state {
				state[i] = 0
				if r.past != nil {
					state[i] = r.past.Float64(base + i)
				}
			}
			for t := range steps {
				env.Work((3 + group) * r.dk * r.dv)
				at := b*steps + t
				key := func(d int) float64 { return r.k.Float64((at*r.kh+h)*r.dk + d) }
				if r.decay != nil {
					for d := range r.dk {
						i := at*decays + h
						if decays != r.kh {
							i = at*decays + h*r.dk + d
						}
						for m := range r.dv {
							state[d*r.dv+m] *= math.Exp(r.decay.Float64(i))
						}
					}
				}
				for m := range write {
					write[m] = r.v.Float64((at*r.kh+h)*r.dv + m)
					if r.beta != nil {
						for d := range r.dk {
							write[m] -= state[d*r.dv+m] * key(d)
						}
						write[m] *= r.beta.Float64(at*betas + h%betas)
					}
				}
				for d := range r.dk {
					for m, w := range write {
						state[d*r.dv+m] += key(d) * w
					}
				}
				for g := range group {
					head := h*group + g
					for m := range r.dv {
						sum := 0.0
						for d := range r.dk {
							sum += r.q.Float64((at*r.qh+head)*r.dk+d) * state[d*r.dv+m]
						}
						y.SetFloat64((at*r.qh+head)*r.dv+m, r.scale*sum)
					}
				}
			}
			for i, s := range state {
				present.SetFloat64(base+i, s)
			}
		}
	}
	return nil
}
