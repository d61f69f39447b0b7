package schedule

import "slices"

// A Choice is the decision for an order of the steps of a program. It holds at other sizes as long as no other order that is known needs
// less by more than a little. It remembers orders and ratios, so one goroutine at a time may ask it.
type Choice struct {
	need  *Need // memory that the order needs
	floor *Need // memory that every order needs
	// ratio is the highest ratio of need to floor at which no other order was better.
	ratio float64
	// other is what the order needs if results over parts of buffers are not written there, or conversely; nil if there are none.
	other *Need
	// known are other orders that were best at some sizes, the oldest first.
	known []*Need
}

// mostKnown bounds the other orders that a choice remembers.
const mostKnown = 8

// Choose returns the choice of an order of the steps of p. over is the same program with results over parts of buffers; nil if there are
// none. used reports whether the order runs with them.
func Choose(p, over *Program, used bool, order []int) *Choice {
	c := &Choice{need: NeedOf(p, order)}
	if over != nil {
		if c.other = NeedOf(over, order); used {
			p, c.need, c.other = over, c.other, c.need
		}
	}
	c.floor = Floor(p)
	c.ratio = float64(c.need.Peak(p.Bytes, p.Scratch)) / float64(max(1, c.floor.Peak(p.Bytes, p.Scratch)))
	return c
}

// Holds reports whether the order is still a good one at these sizes of buffers and of the steps' scratch. It looks for another order where
// the ratio of need to floor is above the highest one at which the order was good.
func (c *Choice) Holds(bytes, scratch []int64) bool {
	need, floor := c.need.Peak(bytes, scratch), float64(c.floor.Peak(bytes, scratch))
	better := func(o *Need) bool { return !Tight(need, float64(o.Peak(bytes, scratch))) }
	if slices.ContainsFunc(c.known, better) || c.other != nil && better(c.other) {
		return false
	}
	if Tight(need, c.ratio*floor) {
		return true
	}
	p := *c.floor.Program
	p.Bytes, p.Scratch = bytes, scratch
	other := NeedOf(&p, Order(&p))
	c.known = append(c.known[max(0, len(c.known)-mostKnown+1):], other)
	if better(other) {
		return false
	}
	c.ratio = float64(need) / floor
	return true
}

// Tight reports whether bytes are at most half a hundredth above a number of bytes, or half a page: rounding adds more to small ones.
func Tight(bytes int64, least float64) bool { return float64(bytes) <= max(1.005*least, least+2048) }
