package kernel

import "unsafe"

// Stored is a constant B[K,N] in a smaller form than float32: packed by [Set.NewPackBlocks], or by [Set.NewPackB] and then rounded to
// 16-bit floats. Products decode a block of a panel at a time, in scratch memory that stays in the cache, and use it for many rows.
type Stored struct {
	pack *PackBlocks // nil for 16-bit floats
	k    int
	data []byte
	bf16 bool
}

// StoredBlocks is a B that p has packed.
func (p *PackBlocks) StoredBlocks(data []byte) Stored {
	return Stored{pack: p, k: p.K, data: data[:p.Bytes()]}
}

// StoredHalf is a B of 16-bit floats, which are as p packs float32: bfloat16 or else IEEE halves.
func (p *Pack) StoredHalf(data []uint16, bf16 bool) Stored {
	return Stored{k: p.K, data: bytesOfHalves(data[:p.Len()]), bf16: bf16}
}

// From is B from a column on that begins a panel.
func (c Stored) From(column int) Stored {
	c.data = c.data[column*c.columnBytes():]
	return c
}

// Data is B as [PackBlocks] has packed it.
func (c *Stored) Data() []byte { return c.data }

// widenRows are the rows that Widen decodes at a time.
const widenRows = 64

// Panels is the number of panels of n columns.
func (s *Set) Panels(n int) int { return s.gemm.panels(n) }

// WidenBytes is the scratch memory that Widen needs.
func (s *Set) WidenBytes() int { return 4 * decodedRows(widenRows) * s.gemm.cols() }

// Widen writes one panel of the n columns of b to dst as [Set.NewPackB] would have packed it: for products of few rows that come again
// and again.
func (s *Set) Widen(b *Stored, panel, n int, dst []float32, scratch []byte) {
	source := b.panel(&s.gemm, panel, n, floats(scratch, s.WidenBytes()/4))
	dst = dst[panel*s.gemm.cols()*b.k:]
	for k := 0; k < b.k; k += widenRows {
		rows := min(widenRows, b.k-k)
		copy(dst[k*source.cols:], unsafe.Slice(source.block(s, k, rows), rows*source.cols))
	}
}

// columnBytes is the size of a packed column.
func (c *Stored) columnBytes() int {
	if c.pack == nil {
		return 2 * c.k
	}
	return 4 * c.pack.k
}

// storedRows is the most rows of B of which one word holds numbers.
const storedRows = 8

// decodedRows is the room, in rows, that a block of k rows needs to be decoded: what shares a word with its first and last is decoded, too.
func decodedRows(k int) int { return roundUp(k, storedRows) + 2*storedRows }

// storedPanel is a panel of a Stored that is decoded block by block.
type storedPanel struct {
	*Stored
	packed   []byte
	cols     int // width of the panel, columns that fill its last vector included
	room     []float32
	first, n int // the first row, and the number of rows, that were decoded last
	decoded  *float32
}

// panel is one panel of n columns; room is for decodedRows of a block.
func (c *Stored) panel(tile *gemmTile, panel, n int, room []float32) storedPanel {
	_, cols := tile.panelCols(panel, n)
	size := c.columnBytes()
	return storedPanel{Stored: c, packed: c.data[panel*tile.cols()*size:][:cols*size], cols: cols, room: room, first: -1}
}

// block returns n rows from first on, in float32. They stay where they are until the next call for others.
func (p *storedPanel) block(s *Set, first, n int) *float32 {
	if p.first != first || p.n != n {
		p.first, p.n, p.decoded = first, n, pointerAt(p.room, storedRows*p.cols)
		p.decode(s)
	}
	return p.decoded
}

func (p *storedPanel) decode(s *Set) {
	last := p.first + p.n
	if p.pack == nil {
		src, dst := elementsOf[uint16](p.packed)[p.first*p.cols:last*p.cols], p.room[storedRows*p.cols:]
		if p.bf16 {
			s.FromBF16(dst[:len(src)], src)
		} else {
			s.FromF16(dst[:len(src)], src)
		}
		return
	}
	decode, group := s.blocks(p.pack.Bits).decode, 32/p.pack.Bits
	size, block := p.pack.blockBytes(p.cols), p.pack.Block
	for lo, hi := p.first/group*group, 0; lo < last; lo = hi {
		b := lo / block
		hi = min((b+1)*block, last)
		scale, zero, words := blockParts(p.packed[b*size:][:size], p.cols)
		decode(pointerAt(p.room, (storedRows+lo-p.first)*p.cols), pointer(bytesOfWords(words[lo%block/group*p.cols:])), pointer(scale),
			pointer(zero), ceilDiv(hi-lo, group), p.cols)
	}
}

// GemmStored is a [Gemm] of a Stored B.
type GemmStored struct {
	M, N, K int

	set      *Set
	blocking blocking
}

// decodedPerNanosecond is the approximate number of stored weights that one core decodes in a nanosecond.
const decodedPerNanosecond = 8

// NewGemmStored plans C[m,n] = A[m,k]·B[k,n] for that many workers, which have no influence on results.
func (s *Set) NewGemmStored(m, n, k, workers int) *GemmStored {
	g := &GemmStored{M: m, N: n, K: k, set: s, blocking: s.newBlocking(&s.gemm, m, n, k, blockRows)}
	if m <= 2*s.gemm.rows { // a block that few rows of A use stays in half of the L1 cache
		g.blocking.kBlock = evenBlock(k, s.caches.l1/2/(4*s.gemm.cols()))
	}
	g.blocking.kBlock = roundUp(g.blocking.kBlock, storedRows)
	g.blocking.cutRows(workers, k*s.gemm.cols()/decodedPerNanosecond)
	return g
}

// Parts is the number of independent pieces.
func (g *GemmStored) Parts() int { return g.blocking.parts() }

// ScratchBytes is the scratch memory that one worker needs.
func (g *GemmStored) ScratchBytes() int {
	return 4 * decodedRows(g.blocking.kBlock) * g.blocking.tile.cols()
}

// Run computes one part, 0 ≤ part < Parts(), with ScratchBytes() bytes of scratch that no other part uses meanwhile. The operands are
// those of a Gemm, but for B.
func (g *GemmStored) Run(part int, args *GemmArgs, b *Stored, scratch []byte) {
	args.check(g.M, g.N, g.K)
	rowLo, rowHi, panelLo, panelHi := g.blocking.part(part)
	for p := panelLo; p < panelHi; p++ {
		cols, packedCols := g.blocking.tile.panelCols(p, g.N)
		source := b.panel(g.blocking.tile, p, g.N, floats(scratch, g.ScratchBytes()/4))
		g.set.gemmPanel(g.blocking.tile, args, gemmPanel{rowLo: rowLo, rowHi: rowHi, col: p * g.blocking.tile.cols(), cols: cols, k: g.K,
			kBlock: g.blocking.kBlock, stored: noescape(&source), bRow: packedCols})
	}
}

// A HalfMatrix receives a product as 16-bit floats: element (m, n) at m·Row + n.
type HalfMatrix struct {
	Dst  []uint16
	Row  int  // distance of rows, in elements
	BF16 bool // bfloat16 instead of IEEE halves

	Residual []uint16 // what is added, of the type of Dst: element (m, n) at m·ResRow + n, or nil; may be Dst
	ResRow   int      // distance of rows of Residual, in elements
}

// HalfBytes is the scratch memory that one worker needs for RunHalf: that of Run, and the rows of a part of one panel as float32, of the
// result and of the residual.
func (g *GemmStored) HalfBytes() int { return g.ScratchBytes() + 2*g.halfPanelBytes() }

func (g *GemmStored) halfPanelBytes() int { return 4 * g.blocking.mostRows() * g.blocking.tile.cols() }

// RunHalf is Run with HalfBytes() bytes of scratch, a residual of 16-bit floats, and a result that is rounded to them. C and Residual of
// args are not used.
func (g *GemmStored) RunHalf(part int, args *GemmArgs, to *HalfMatrix, b *Stored, scratch []byte) {
	demand(to.Dst, (g.M-1)*to.Row+g.N)
	if to.Residual != nil {
		demand(to.Residual, (g.M-1)*to.ResRow+g.N)
	}
	rowLo, rowHi, panelLo, panelHi := g.blocking.part(part)
	tile, rows := g.blocking.tile, rowHi-rowLo
	decoded, scratch := floats(scratch, g.ScratchBytes()/4), scratch[g.ScratchBytes():]
	result, residual := floats(scratch, g.halfPanelBytes()/4), floats(scratch[g.halfPanelBytes():], g.halfPanelBytes()/4)
	narrow, widen := g.set.ToF16, g.set.FromF16
	if to.BF16 {
		narrow, widen = g.set.ToBF16, g.set.FromBF16
	}
	for p := panelLo; p < panelHi; p++ {
		cols, packedCols := tile.panelCols(p, g.N)
		col, own := p*tile.cols(), *args
		own.C, own.CRow = result, cols
		if g.K > 0 {
			own.A = args.A[rowLo*args.ARow:]
		}
		if args.Bias != nil {
			own.Bias = args.Bias[col:]
		}
		if own.Residual = nil; to.Residual != nil {
			own.Residual, own.ResRow = residual, cols
			for r := range rows {
				widen(residual[r*cols:][:cols], to.Residual[(rowLo+r)*to.ResRow+col:][:cols])
			}
		}
		own.check(rows, cols, g.K)
		source := b.panel(tile, p, g.N, decoded)
		g.set.gemmPanel(tile, noescape(&own), gemmPanel{rowHi: rows, cols: cols, k: g.K, kBlock: g.blocking.kBlock,
			stored: noescape(&source), bRow: packedCols})
		for r := range rows {
			narrow(to.Dst[(rowLo+r)*to.Row+col:][:cols], result[r*cols:][:cols])
		}
	}
}
