package cpu

import (
	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// The matrix between the two products of a feed-forward layer is some times as wide as its operand and result. The layer runs tile by
// tile of rows, each by all threads, so that of that matrix there is one tile. Each row is computed as in products of all rows.

const (
	// tileRows is the fewest rows of a tile for each thread of a pair: as many as a product's part has, so that weights are read as often
	// as without tiles.
	tileRows = 128
	// mostTiles: more than these would save less than what attention needs anyway, and take longer to bind.
	mostTiles = 4
)

// tiles is the number of tiles that a layer runs in.
func (d *processor) tiles(n *ir.Node) int {
	rows := rowsOf(n.Outputs[0].Type.Sizes())
	return min(mostTiles, rows/(tileRows*max(1, d.Threads()/2)))
}

func rowsOf(s tensor.Shape) int { return s[:len(s)-1].Elements() }

// tileOf returns the rows of all tiles but the last, which may have fewer.
func (d *processor) tileOf(n *ir.Node) int {
	rows, tiles := rowsOf(n.Outputs[0].Type.Sizes()), d.tiles(n)
	return (rows + tiles - 1) / tiles
}

func (d *processor) feedForwardEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			x, u, w := n.Inputs[ir.FeedForwardX].Type, n.Inputs[ir.FeedForwardUp], n.Inputs[ir.FeedForwardDown]
			if x.DType != tensor.F32 || u.Packed == nil || w.Packed == nil {
				return false
			}
			y, isBound := n.Outputs[0].Type.Static()
			if _, err := formatOf(u.Packed); err != nil || !isBound {
				return false
			}
			if _, err := formatOf(w.Packed); err != nil {
				return false
			}
			act := n.Op.(ir.FeedForward).Up().Activation()
			_, known := unaryKernel(act)
			between := widthBetween(n)
			return (known || act.Fn == ir.NoUnary) && between > y[len(y)-1] && d.tiles(n) > 1
		},
		Strided: func(n *ir.Node, i int, strides []int) bool {
			return i == ir.FeedForwardX && mergesRows(n.Inputs[i].Type.Sizes(), strides) && strides[len(strides)-1] == 1
		},
		// A tile's rows of x are read before its rows of the result are written, and by no other tile. Sums start from a residual that
		// they are over, as in the product alone, so that no other memory may be taken over where there is one.
		InPlace: func(n *ir.Node, i int) bool {
			residual, w := ir.Operand(n.Inputs, ir.FeedForwardResidual), n.Inputs[ir.FeedForwardDown].Packed
			switch {
			case residual == nil:
				return i == ir.FeedForwardX
			case w.Layout.Form != packed.F32:
				return false
			}
			return i == ir.FeedForwardResidual || i == ir.FeedForwardX && n.Inputs[i] == residual
		},
		Scratch: func(n *ir.Node) []int64 {
			_, _, sizes := d.tileScratch(n)
			return sizes
		},
		Bind: bindFeedForward,
	}
}

// widthBetween is the number of columns between the products.
func widthBetween(n *ir.Node) int {
	s := n.Inputs[ir.FeedForwardUp].Type.Sizes()
	if n.Op.(ir.FeedForward).TransUp {
		return s[len(s)-2]
	}
	return s[len(s)-1]
}

// productsOf returns the two products of that many rows of a layer.
func (d *processor) productsOf(n *ir.Node, rows int) (up, down *ir.Node) {
	op := n.Op.(ir.FeedForward)
	matrix := func(columns int) *ir.Value {
		return &ir.Value{Type: ir.TensorOf(tensor.F32, ir.Dims(rows, columns)...)}
	}
	x, y := n.Inputs[ir.FeedForwardX].Type.Sizes(), n.Outputs[0].Type.Sizes()
	between := matrix(widthBetween(n))
	up = &ir.Node{Op: op.Up(), Outputs: []*ir.Value{between}, Inputs: []*ir.Value{matrix(x[len(x)-1]), n.Inputs[ir.FeedForwardUp]}}
	down = &ir.Node{Op: op.Down(), Outputs: []*ir.Value{matrix(y[len(y)-1])}, Inputs: []*ir.Value{between, n.Inputs[ir.FeedForwardDown]}}
	return up, down
}

// tileScratch returns the sizes of the scratch buffers: the tile between the products, then what each product needs, and how many
// these are.
func (d *processor) tileScratch(n *ir.Node) (ups, downs int, sizes []int64) {
	rows, tile := rowsOf(n.Outputs[0].Type.Sizes()), d.tileOf(n)
	sizes = []int64{int64(4 * tile * widthBetween(n))}
	for _, rows := range []int{tile, rows - (d.tiles(n)-1)*tile} {
		up, down := d.productsOf(n, rows)
		ofUp, ofDown := d.productScratch(up), d.productScratch(down)
		ups, downs = len(ofUp), len(ofDown)
		for i, size := range append(ofUp, ofDown...) {
			if 1+i == len(sizes) {
				sizes = append(sizes, 0)
			}
			sizes[1+i] = max(sizes[1+i], size)
		}
	}
	return ups, downs, sizes
}

func (d *processor) productScratch(n *ir.Node) []int64 {
	f, err := formatOf(n.Inputs[ir.MatMulB].Packed)
	if err != nil {
		return nil
	}
	return products[f].scratch(d, n)
}

func bindFeedForward(b *binder, n *ir.Node, in, out []operand) (step, error) {
	d, rows, tile := b.d, rowsOf(out[0].shape), b.d.tileOf(n)
	ups, downs, _ := d.tileScratch(n)
	between := b.scratchBytes(0)
	own := *b
	var phases []step
	add := func(n *ir.Node, scratch []int, in, out []operand) error {
		own.scratch = scratch
		st, err := bindPacked(&own, n, in, out)
		for phase := &st; phase != nil; phase = phase.then {
			phases = append(phases, *phase)
		}
		return err
	}
	for first := 0; first < rows; first += tile {
		up, down := d.productsOf(n, min(tile, rows-first))
		h := between
		h.dtype, h.width, h.shape = tensor.F32, 4, up.Outputs[0].Type.Sizes()
		h.strides, h.span = h.shape.Strides(), h.shape.Elements()
		part := func(o operand, like *ir.Value) operand { return o.rows(first, like.Type.Sizes()) }
		y := []operand{part(out[0], down.Outputs[0])}
		err := add(up, b.scratch[1:][:ups], []operand{part(in[ir.FeedForwardX], up.Inputs[0]), in[ir.FeedForwardUp],
			in[ir.FeedForwardUpBias], {}}, []operand{h})
		if err != nil {
			return step{}, err
		}
		err = add(down, b.scratch[1+ups:][:downs], []operand{h, in[ir.FeedForwardDown], in[ir.FeedForwardBias],
			part(in[ir.FeedForwardResidual], down.Outputs[0])}, y)
		if err != nil {
			return step{}, err
		}
	}
	return inPhases(phases...), nil
}
