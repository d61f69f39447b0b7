package lower

import (
	"slices"

	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/ops"
)

var recurrentRows = []row{
	{"RNN", 7, lowerRNN},
	{"GRU", 7, lowerGRU},
	{"LSTM", 7, lowerLSTM},
}

func lowerRNN(c *Context) []*ir.Value { return c.keep(ops.RNN{Recurrent: c.recurrent()}) }

func lowerGRU(c *Context) []*ir.Value {
	return c.keep(ops.GRU{Recurrent: c.recurrent(), LinearBeforeReset: c.AttrBool("linear_before_reset", false)})
}

func lowerLSTM(c *Context) []*ir.Value {
	return c.keep(ops.LSTM{Recurrent: c.recurrent(), InputForget: c.AttrBool("input_forget", false)})
}

// recurrent reads what the recurrent operators share.
func (c *Context) recurrent() ops.Recurrent {
	for i := range c.NumInputs() {
		c.Opt(i)
	}
	return c.recurrentOf(c.In(ops.RecurrentR).Type)
}

// recurrentOf is recurrent for recurrent weights of type w.
func (c *Context) recurrentOf(w ir.Type) ops.Recurrent {
	direction := c.AttrString("direction", "forward")
	if !slices.Contains([]string{"forward", "reverse", "bidirectional"}, direction) {
		c.Failf("direction %q is none of forward, reverse and bidirectional", direction)
	}
	if len(w.Shape) != 3 {
		c.Failf("recurrent weights %v", w)
	}
	hidden, ok := w.Shape[2].Const()
	if !ok || c.AttrInt("hidden_size", hidden) != hidden {
		c.Failf("recurrent weights %v for hidden_size %d", w, c.AttrInt("hidden_size", 0))
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
