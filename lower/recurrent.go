package lower

import (
	"slices"

	"github.com/rlxc/rlxc/internal/ops"
	"github.com/rlxc/rlxc/ir"
)

var recurrentRows = []row{
	{"RNN", 7, lowerRNN},
	{"GRU", 7, lowerGRU},
	{"LSTM", 7, lowerLSTM},
}

func lowerRNN(c *context) []*ir.Value {
	r, in := c.recurrent()
	return c.opaque(ops.RNN{Recurrent: r}, in...)
}

func lowerGRU(c *context) []*ir.Value {
	r, in := c.recurrent()
	return c.opaque(ops.GRU{Recurrent: r, LinearBeforeReset: c.AttrBool("linear_before_reset", false)}, in...)
}

func lowerLSTM(c *context) []*ir.Value {
	r, in := c.recurrent()
	return c.opaque(ops.LSTM{Recurrent: r, InputForget: c.AttrBool("input_forget", false)}, in...)
}

// recurrent reads what the recurrent operators share. The order of gates differs between PyTorch and ONNX, and some exporters write the
// reordering as nodes: kernels want the weights that come of it, or what is stored.
func (c *context) recurrent() (r ops.Recurrent, in []*ir.Value) {
	for i := range c.NumInputs() {
		v := c.Opt(i)
		if i == ops.RecurrentW || i == ops.RecurrentR || i == ops.RecurrentB {
			if _, _, _, ok := c.stored(v); !ok {
				v = c.weight(v)
			}
		}
		in = append(in, v)
	}
	return c.recurrentOf(c.In(ops.RecurrentR).Type), in
}

// recurrentOf is recurrent for recurrent weights of type w.
func (c *context) recurrentOf(w ir.Type) ops.Recurrent {
	direction := c.AttrString("direction", "forward")
	if !slices.Contains([]string{"forward", "reverse", "bidirectional"}, direction) {
		c.Failf("direction %q is not forward, reverse or bidirectional", direction)
	}
	if len(w.Shape) != 3 {
		c.Failf("recurrent weights %v: want three axes", w)
	}
	hidden, ok := w.Shape[2].Const()
	if !ok {
		hidden = c.AttrInt("hidden_size", 0)
	}
	if hidden < 1 || c.AttrInt("hidden_size", hidden) != hidden {
		c.Failf("recurrent weights %v for hidden_size %d: want it as their last axis", w, c.AttrInt("hidden_size", 0))
	}
	r := ops.Recurrent{Hidden: hidden, Reverse: direction == "reverse", Bidirectional: direction == "bidirectional",
		BatchFirst: c.Version() >= 14 && c.choice("layout", 2) == 1, Results: c.NumOutputs()}
	r.Activations, _ = c.AttrStrings("activations")
	r.Alpha, _ = c.AttrFloats("activation_alpha")
	r.Beta, _ = c.AttrFloats("activation_beta")
	if c.HasAttr("clip") {
		if r.Clip = c.AttrFloat("clip", 0); !(r.Clip > 0) {
			c.Failf("clip = %v is not above 0", r.Clip)
		}
	}
	return r
}
