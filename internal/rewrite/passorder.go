package rewrite

import "fmt"

// A precedence says that one pass runs before another, and what is lost otherwise.
type precedence struct{ first, then, reason string }

// passOrder lists the precedences between passes, with their reasons. Passes that it does not order may change places. TestPassOrder has a
// program for each precedence that takes more steps or more arithmetic if the two passes are swapped.
var passOrder = []precedence{
	{"fold", "fused elementwise", "a map of constants is computed in each run, and a neutral operand is one more to read"},
	{"cse", "quantised", "a scale that two nodes compute is not known to be one scale"},
	{"cse", "fused elementwise", "two copies of a node join two maps, which are no longer equal"},
	{"quantised", "qdq pairs", "a rounding that a product reads is part of that product, not a loss to undo"},
	{"quantised", "rows", "a slice moves into the nodes that spell a product of quantised values, which is then not found"},
	{"quantised", "epilogues", "a product with an epilogue is not recognised as one of quantised values"},
	{"qdq pairs", "positions", "a gather of one row becomes a view, through which a product reads the quantised values of all rows"},
	{"qdq pairs", "primitives", "a pair is between the ops that spell a norm or activation"},
	{"canonical", "primitives", "norms and activations are matched in one spelling"},
	{"canonical", "late cse", "two spellings of one value are not equal"},
	{"canonical", "fused elementwise", "a map keeps the spelling that it was made of"},
	{"positions", "embeddings", "position ids that are gathered must have become rows of the table"},
	{"positions", "rows", "a gather of one row is a slice after this pass"},
	{"positions", "fused elementwise", "a map would compute at full size what is broadcast"},
	{"primitives", "products", "a view moves through a norm or activation, and not through the ops that spell one"},
	{"primitives", "epilogues", "an activation in many nodes is not an activation of a product"},
	{"primitives", "fused elementwise", "elementwise ops of a norm would be taken into a map"},
	{"products", "attention", "scales must be factors of products, and transposes their flags"},
	{"products", "epilogues", "views between a product and what follows it must be gone"},
	{"products", "fused elementwise", "views between elementwise ops must be gone"},
	{"attention", "rows", "rows of a result are rows of the queries only once attention is one op"},
	{"attention", "qkv", "the slices of a joint product would be between a product and its attention"},
	{"attention", "fused elementwise", "scale and mask of the scores would be taken into a map"},
	{"rows", "qkv", "a last layer may project fewer queries than keys, which one product cannot"},
	{"rows", "epilogues", "a slice moves through a bare product, not through one with an epilogue"},
	{"embeddings", "epilogues", "the norm after the tables would take their sum as its residual"},
	{"embeddings", "fused elementwise", "the sum of the tables' rows would become a map"},
	{"epilogues", "quantised blocks", "a norm takes its residual first, and then returns quantised values"},
	{"qkv", "order", "the nodes that it makes must be ordered"},
}

func init() {
	at := map[string]int{}
	for i, p := range passes {
		if _, twice := at[p.name]; twice {
			panic("rewrite: two passes are called " + p.name)
		}
		at[p.name] = i
	}
	for _, c := range passOrder {
		first, known := at[c.first]
		then, too := at[c.then]
		if !known || !too || c.reason == "" {
			panic(fmt.Sprintf("rewrite: the order of passes %q and %q: no such pass, or no reason", c.first, c.then))
		}
		if first >= then {
			panic(fmt.Sprintf("rewrite: pass %s must run before %s: otherwise %s", c.first, c.then, c.reason))
		}
	}
}
