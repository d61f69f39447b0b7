package cpu

import (
	"slices"

	"github.com/rlxc/rlxc/internal/packed"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// What is between the ops of a chain is some times as large as its operand and result. The chain runs tile by tile of rows, so that of it
// there is one tile. Each row is computed as in ops of all rows.
//
// Products run each tile by all threads. A window needs rows around those of its tile; there a tile is rows of an image, and one worker
// runs all ops on it, whose results stay in its L2 cache. Rows that two tiles need are computed twice.

const (
	// mostTiles: more than these would save less than what attention needs anyway, and take longer to bind.
	mostTiles = 4
	// mostTilesOfLink bounds the tiles of a product within a tile of its chain: with more, the steps of a run would take megabytes.
	mostTilesOfLink = 2
)

// A chain is a bound chain, cut into tiles.
type chain struct {
	op     ir.Chain
	links  []*ir.Node // the ops of all rows
	rows   int        // rows of a tile of the result; the last tile may have fewer
	tiles  int        // number of tiles of the result, or of each image if images is not 0
	images int        // number of images; 0 for a chain of products
}

// chainOf cuts a chain, if it gains by tiles.
func (d *processor) chainOf(n *ir.Node) (c chain, ok bool) {
	if _, isBound := n.Outputs[0].Type.Static(); !isBound {
		return c, false
	}
	links, err := n.Op.(ir.Chain).Links(n.Inputs)
	if err != nil {
		return c, false
	}
	c.op, c.links = n.Op.(ir.Chain), links
	windows := false
	for _, l := range links {
		if !d.claimsLink(l) {
			return c, false
		}
		windows = windows || l.Op.Kind() == ir.KindConv
	}
	if windows {
		residual := ir.Operand(n.Inputs, n.Op.(ir.Chain).Residual())
		return c, (residual == nil || shown(residual) != shown(n.Inputs[ir.ChainX])) && d.cutImages(&c)
	}
	y := n.Outputs[0].Type.Sizes()
	rows := rowsOf(y)
	c.tiles = d.tilesOf(rows, mostTiles)
	if len(links) != 2 || c.tiles < 2 || widthBetween(&c) <= y[len(y)-1] {
		return c, false
	}
	c.rows = ceilDiv(rows, c.tiles)
	return c, d.tilesAlike(&c)
}

// tilesAlike reports whether the products of every tile of rows run by the algorithm that runs all rows.
func (d *processor) tilesAlike(c *chain) bool {
	alike := true
	c.eachTile(func(i int, product *ir.Node) {
		e := d.linkEntry(product)
		alike = alike && (e.Algorithm == nil || e.Algorithm(product) == e.Algorithm(c.links[i]))
	})
	return alike
}

// shown is the value whose memory v shows, if v is a view.
func shown(v *ir.Value) *ir.Value {
	for v.Def != nil && v.Def.Op.Kind().Has(ir.View) {
		v = v.Def.Inputs[0]
	}
	return v
}

// claimsLink reports whether kernels compute rows of an op as they compute all of them.
func (d *processor) claimsLink(n *ir.Node) bool {
	if n.Op.Kind() == ir.KindConv {
		return claimsConv(n) && (isDepthwise(n) || n.Inputs[ir.ConvW].Packed != nil && !isTiled(n))
	}
	e := d.linkEntry(n)
	return n.Inputs[ir.ChainW].Packed != nil && (e.Supports == nil || e.Supports(n))
}

// widthBetween is the number of columns between two products.
func widthBetween(c *chain) int {
	s := c.links[0].Outputs[0].Type.Sizes()
	return s[len(s)-1]
}

// cutImages cuts the images of the result where what is between the ops does not stay in the L2 cache.
func (d *processor) cutImages(c *chain) bool {
	x, y := c.links[0].Inputs[0].Type, c.links[len(c.links)-1].Outputs[0].Type
	if len(y.Shape) != 4 {
		return false
	}
	most, before := 0, x // of what is in memory without tiles
	if x.DType != tensor.F32 {
		return false
	}
	for i, l := range c.links {
		if l.Op.Kind() != ir.KindConv && l.Inputs[ir.ChainW].Packed.Layout.Form != packed.F32 || !meetsImage(l) {
			return false
		}
		v := l.Outputs[0].Type
		if i < len(c.links)-1 && 4*v.Elements() <= d.set.L2()/2 {
			return false
		}
		most, before = max(most, 4*(before.Elements()+v.Elements())), v
	}
	threads := d.Threads()
	limit := min(d.set.L2()/2, (most-4*(x.Elements()+y.Elements()))/threads)
	high, wide := y.Sizes()[1], y.Sizes()[2]
	for c.rows < high && c.offsets(c.rows + 1)[len(c.links)-1] <= limit {
		c.rows++
	}
	if c.rows == 0 {
		return false
	}
	c.images = y.Sizes()[0]
	tiles := ceilDiv(c.images*ceilDiv(high, c.rows), threads) * threads
	c.rows = ceilDiv(high, ceilDiv(tiles, c.images))
	c.tiles = ceilDiv(high, c.rows)
	// Weights are read no more often than without tiles, and few rows are computed twice.
	if c.rows*wide < tileRows {
		return false
	}
	for i, rows := range c.most(c.rows) {
		if 4*c.tiles*rows > 5*c.links[i].Outputs[0].Type.Sizes()[1] {
			return false
		}
	}
	return d.addsAlike(c, high)
}

// addsAlike reports whether the products of every tile add as those of whole images do, whatever the number of threads.
func (d *processor) addsAlike(c *chain, high int) bool {
	for _, t := range []int{0, c.tiles - 1} { // which have the fewest rows
		for i, l := range c.linksOf(c.needed(t*c.rows, min((t+1)*c.rows, high))) {
			if l.Op.Kind() == ir.KindMatMul && d.set.AddsByParts(packedSizes(l)) != d.set.AddsByParts(packedSizes(c.links[i])) {
				return false
			}
		}
	}
	return true
}

// meetsImage reports whether each window of an op meets the image. Those of products do.
func meetsImage(n *ir.Node) bool {
	o, ok := n.Op.(ir.Conv)
	if !ok {
		return true
	}
	_, before, after := o.Positions(0, n.Inputs[ir.ConvX].Type.Shape[1])
	return max(before.Int(), after.Int()) < o.Extent(0)
}

// needs are rows [lo, hi) of a value of a chain, and the rows of padding before and after them that a window meets.
type needs struct {
	lo, hi, front, back int
}

// alike reports whether tiles that need n and m are computed alike.
func (n needs) alike(m needs) bool {
	return n.hi-n.lo == m.hi-m.lo && n.front == m.front && n.back == m.back
}

// needed returns the rows of x, of each value between and of the result from which rows [lo, hi) of an image of the result follow.
func (c *chain) needed(lo, hi int) []needs {
	all := make([]needs, len(c.links)+1)
	all[len(c.links)] = needs{lo: lo, hi: hi}
	for i, l := range slices.Backward(c.links) {
		n := needs{lo: lo, hi: hi}
		if o, ok := l.Op.(ir.Conv); ok {
			high := l.Inputs[ir.ConvX].Type.Shape[1]
			_, before, _ := o.Positions(0, high)
			first, end := lo*o.Strides[0]-before.Int(), (hi-1)*o.Strides[0]-before.Int()+o.Extent(0)
			n.lo, n.hi = max(first, 0), min(end, high.Int())
			n.front, n.back = n.lo-first, end-n.hi
		}
		all[i], lo, hi = n, n.lo, n.hi
	}
	return all
}

// most is the most rows of what is between the ops that that many rows of the result need.
func (c *chain) most(rows int) []int {
	all := make([]int, len(c.links)-1)
	for i, l := range slices.Backward(c.links[1:]) {
		if o, ok := l.Op.(ir.Conv); ok {
			rows = min((rows-1)*o.Strides[0]+o.Extent(0), l.Inputs[ir.ConvX].Type.Sizes()[1])
		}
		all[i] = rows
	}
	return all
}

// offsets are where the results of the ops begin in the room of a worker with that many rows of the result, and where the last one ends.
func (c *chain) offsets(rows int) []int {
	all, at := []int{}, 0
	for i, rows := range c.most(rows) {
		s := c.links[i].Outputs[0].Type.Sizes()
		all = append(all, at)
		at += align(4 * rows * s[2] * s[3])
	}
	return append(all, at)
}

// linksOf are the ops of a tile of an image, whose values have the rows that are needed.
func (c *chain) linksOf(all []needs) []*ir.Node {
	links := make([]*ir.Node, len(c.links))
	value := func(v *ir.Value, n needs) *ir.Value {
		s := slices.Clone(v.Type.Shape)
		s[0], s[1] = ir.N(1), ir.N(n.hi-n.lo)
		return &ir.Value{Type: ir.TensorOf(tensor.F32, s...)}
	}
	x := value(c.links[0].Inputs[0], all[0])
	for i, l := range c.links {
		n := &ir.Node{Op: l.Op, Inputs: slices.Clone(l.Inputs), Outputs: []*ir.Value{value(l.Outputs[0], all[i+1])}}
		if o, ok := l.Op.(ir.Conv); ok {
			wide := l.Inputs[0].Type.Shape[2]
			_, left, right := o.Positions(1, wide)
			o.Auto, o.Ceil, o.Pads = "NOTSET", false, []int{all[i].front, left.Int(), all[i].back, right.Int()}
			n.Op = o
		}
		n.Inputs[0] = x
		x, links[i] = n.Outputs[0], n
	}
	return links
}

func (d *processor) chainEntry() entry {
	return entry{
		Supports: func(n *ir.Node) bool {
			_, ok := d.chainOf(n)
			return ok
		},
		Strided: func(n *ir.Node, i int, strides []int) bool {
			c, _ := d.chainOf(n)
			strided := d.linkEntry(c.links[0]).Strided
			return i == ir.ChainX && strided != nil && strided(c.links[0], i, strides)
		},
		// A tile's rows of x are read before its rows of the result are written, and, of products alone, by no other tile. Sums start
		// from a residual that they are over, as in the op alone, so that no other memory may be taken over where there is one.
		InPlace: func(n *ir.Node, i int) bool {
			c, _ := d.chainOf(n)
			at := n.Op.(ir.Chain).Residual()
			residual, last := ir.Operand(n.Inputs, at), c.links[len(c.links)-1]
			of, _ := ir.LinkResidual(last.Op)
			switch over := d.linkEntry(last).InPlace; {
			case residual == nil:
				return i == ir.ChainX && c.images == 0
			case over == nil || !over(last, of):
				return false
			}
			return i == at || i == ir.ChainX && n.Inputs[i] == residual
		},
		Scratch: func(n *ir.Node) []int64 {
			c, _ := d.chainOf(n)
			if c.images > 0 {
				return []int64{int64(d.Threads() * d.formsOf(&c).room)}
			}
			return d.tileScratch(&c)
		},
		Bind: func(b *binder, n *ir.Node, in, out []operand) (step, error) {
			c, _ := b.d.chainOf(n)
			if c.images > 0 {
				return bindImages(b, &c, in, out)
			}
			return bindRows(b, &c, in, out)
		},
	}
}

// linkTable has the entries of the ops that a chain may have. Each decision about a chain asks them several times.
func (d *processor) linkTable() map[ir.Kind]entry {
	return map[ir.Kind]entry{
		ir.KindConv:        d.convEntry(),
		ir.KindMatMul:      d.halfMatMulEntry(d.matMulEntry()),
		ir.KindMatMulNBits: d.matMulNBitsEntry(mostTilesOfLink),
	}
}

func (d *processor) linkEntry(n *ir.Node) entry { return d.links[n.Op.Kind()] }

// eachTile calls do with the products of the largest tile of rows and of the smallest, whose values have types alone. i is the number of
// the product in the chain.
func (c *chain) eachTile(do func(i int, product *ir.Node)) {
	rows := rowsOf(c.links[1].Outputs[0].Type.Sizes())
	for _, number := range slices.Compact([]int{c.rows, rows - (c.tiles-1)*c.rows}) {
		for i, l := range c.links {
			residual, _ := ir.LinkResidual(l.Op)
			do(i, withRows(l, number, residual))
		}
	}
}

// withRows returns a product of that many rows, in no graph. residual is the position of its residual.
func withRows(n *ir.Node, rows, residual int) *ir.Node {
	matrix := func(v *ir.Value) *ir.Value {
		if v == nil {
			return nil
		}
		s := v.Type.Shape
		return &ir.Value{Type: ir.TensorOf(v.Type.DType, ir.N(rows), s[len(s)-1])}
	}
	part := &ir.Node{Op: n.Op, Inputs: slices.Clone(n.Inputs), Outputs: []*ir.Value{matrix(n.Outputs[0])}}
	part.Inputs[0] = matrix(n.Inputs[0])
	if residual < len(n.Inputs) {
		part.Inputs[residual] = matrix(n.Inputs[residual])
	}
	return part
}

// tilesOfRows returns the products of a tile of rows from first on, whose operands and result are those of the chain. between has the rows
// of the tile of what is between the products.
func (c *chain) tilesOfRows(first int, in, out []operand, between operand) (tiles [2]tile) {
	number := min(c.rows, rowsOf(c.links[1].Outputs[0].Type.Sizes())-first)
	for i, l := range c.links {
		residual, _ := ir.LinkResidual(l.Op)
		operands, results := ir.LinkOperands(c.op, 0, in[ir.ChainX], in), []operand{between.dense(l.Outputs[0])}
		if i > 0 {
			operands, results = ir.LinkOperands(c.op, 1, between.dense(l.Inputs[0]), in), out
		}
		tiles[i] = tileOf(l, operands, results, func(at int, o operand) operand {
			if i == 0 && at < 0 || i == 1 && at == 0 {
				return o.rows(0, number)
			}
			return rowCut(first, number, residual)(at, o)
		})
	}
	return tiles
}

// tileScratch returns the sizes of the scratch buffers: the tile between the products, then what either product needs.
func (d *processor) tileScratch(c *chain) []int64 {
	between := c.links[0].Outputs[0].Type
	var sizes []int64
	c.eachTile(func(_ int, product *ir.Node) {
		if e := d.linkEntry(product); e.Scratch != nil {
			sizes = largest(sizes, e.Scratch(product))
		}
	})
	return append([]int64{int64(between.DType.Bytes(c.rows * widthBetween(c)))}, sizes...)
}

// bindRows makes the step of two products.
func bindRows(b *binder, c *chain, in, out []operand) (step, error) {
	var all []step
	between, own := b.scratchBytes(0), b.widensOnce()
	for first := 0; first < rowsOf(out[0].shape); first += c.rows {
		for _, t := range c.tilesOfRows(first, in, out, between) {
			e := b.d.linkEntry(t.node)
			phases, err := own.bindTile(&e, t, b.scratch[1:])
			if err != nil {
				return step{}, err
			}
			all = append(all, phases...)
		}
	}
	return inPhases(all...), nil
}

// forms are the tiles of an image, and those that are computed alike.
type forms struct {
	needed [][]needs    // the needs of each tile
	of     []int        // the index of each tile's form
	links  [][]*ir.Node // the nodes of each form

	offsets []int // offsets of results, as chain.offsets
	room    int   // bytes of a worker: the results of the ops, and the largest scratch of an op
}

// alone returns a processor of one thread, for which a worker plans the ops inside a chain.
func (d *processor) alone() *processor {
	one := &processor{set: d.set, pool: d.pool, threads: 1, target: d.target, format: d.format}
	one.links = one.linkTable()
	return one
}

func (d *processor) formsOf(c *chain) (f forms) {
	high, one, scratch := c.links[len(c.links)-1].Outputs[0].Type.Sizes()[1], d.alone(), int64(0)
	for t := range c.tiles {
		all := c.needed(t*c.rows, min((t+1)*c.rows, high))
		f.needed = append(f.needed, all)
		like := slices.IndexFunc(f.needed, func(m []needs) bool { return slices.EqualFunc(m, all, needs.alike) })
		if like < t {
			f.of = append(f.of, f.of[like])
			continue
		}
		f.of = append(f.of, len(f.links))
		f.links = append(f.links, c.linksOf(all))
		for _, l := range f.links[f.of[t]] {
			for _, size := range one.linkEntry(l).Scratch(l) { // there is one at most
				scratch = max(scratch, size)
			}
		}
	}
	f.offsets = c.offsets(c.rows)
	f.room = f.offsets[len(c.links)-1] + align(int(scratch))
	return f
}

// The slots of what one tile of an image has elsewhere than another.
const (
	tileX = 1 + iota
	tileY
	tileResidual
	tileRoom
)

// bindImages makes the step of a chain with windows.
func bindImages(b *binder, c *chain, in, out []operand) (step, error) {
	f, rooms, last := b.d.formsOf(c), b.scratchBytes(0), len(c.links)-1
	x, y, residual := in[ir.ChainX], out[0], operand{}
	if at := c.op.Residual(); at < len(in) {
		residual = in[at]
	}
	room := func(at int) operand { return operand{location: location{off: at}, slot: tileRoom} }
	inner := room(f.offsets[last]).part(0, f.room-f.offsets[last], tensor.U8)
	own := &binder{d: b.d.alone(), p: b.p, registers: b.registers, inner: &inner}
	steps := make([][]step, len(f.links))
	for i, links := range f.links {
		h := x.tile(tileX, links[0].Inputs[ir.ChainX])
		for k, l := range links {
			to, sum := y.tile(tileY, l.Outputs[0]), operand{}
			if k < last {
				to = room(f.offsets[k]).dense(l.Outputs[0])
			} else {
				sum = residual.tile(tileResidual, l.Outputs[0])
			}
			operands := ir.LinkOperands(c.op, k, h, in)
			operands[len(operands)-1] = sum
			st, err := b.d.linkEntry(l).Bind(own, l, operands, []operand{to})
			if err != nil {
				return step{}, err
			}
			steps[i], h = append(steps[i], st), to
		}
	}
	return step{parts: c.images * c.tiles, run: func(m *machine, part, worker int) {
		image, t := part/c.tiles, part%c.tiles
		at := func(o *operand, n needs) location {
			l := o.location
			if o.shape != nil {
				l.off += o.width * (image*o.strides[0] + n.lo*o.strides[1])
			}
			return l
		}
		n, own, mine := f.needed[t], &m.workers[worker], rooms.location
		mine.off += worker * f.room
		own.locations = append(own.locations[:0], at(&x, n[0]), at(&y, n[last+1]), at(&residual, n[last+1]), mine)
		for k := range steps[f.of[t]] {
			st := &steps[f.of[t]][k]
			for p := range st.parts {
				st.run(own, p, 0)
			}
		}
	}}, nil
}

// tile is the operand as a tile of an image has it, at the machine's location slot.
func (o operand) tile(slot int, like *ir.Value) operand {
	if o.shape == nil {
		return o
	}
	o.location, o.slot, o.shape = location{}, slot, like.Type.Sizes()
	o.span = ir.Layout{Shape: o.shape, Strides: o.strides}.Span()
	return o
}

// dense returns a row-major operand of the type of a value, which begins where o begins.
func (o operand) dense(like *ir.Value) operand {
	o.dtype, o.width, o.shape = like.Type.DType, like.Type.DType.Size(), like.Type.Sizes()
	o.strides, o.span = o.shape.Strides(), o.shape.Elements()
	return o
}
