package engine

import (
	"runtime/debug"
	"unsafe"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/ir"
)

// worthFreeing is how much garbage packing makes before it is collected at once, in bytes.
const worthFreeing = 16 << 20

// Process is what this process holds besides the weights of the program, and the most that it has held, in bytes. It is measured when it is
// first asked for, which is before the first run, so that no arena is counted twice. peak is 0 where the system does not report it.
func (p *Program) Process() (runtime, peak int64) {
	p.measured.Do(func() {
		p.runtime = runtimeBytes
		debug.FreeOSMemory()
		var now int64
		if now, p.peak = memory.Resident(); now == 0 {
			return
		}
		for data, v := range distinct(p.graph) {
			if v.Packed != nil && p.stats.Packed > 0 {
				now -= int64(len(data))
			}
		}
		p.runtime = max(now, 0)
	})
	return p.runtime, p.peak
}

// releaser returns what backend.Options.Release is: the pages that a weight of the file took go at once, a weight on the heap
// when enough of them have become garbage.
func releaser(file Source) func(weight []byte) {
	garbage := 0
	return func(weight []byte) {
		if file.EvictPart(weight) {
			return
		}
		if garbage += len(weight); garbage >= worthFreeing {
			debug.FreeOSMemory()
			garbage = 0
		}
	}
}

// copySmall makes copies of the small constants of an ONNX file, so that packing and running do not bring the pages around each,
// and releases what lowering and rewriting have looked at. A compiled file has them among what each run reads.
func copySmall(file Source, g *ir.Graph) {
	if file.Compiled() != nil {
		return
	}
	for _, v := range g.Consts() {
		if v.Const != nil && len(v.Const.Bytes()) <= faultAround {
			v.Const = v.Const.Clone()
			file.Evict() // or the pages around all of them would be there at once
		}
	}
}

// tidy releases what compiling took and no run needs: the file's pages, which packing has read, and weights on their way to
// their packed form.
func (p *Program) tidy() {
	packed := 0
	for _, v := range p.graph.Consts() {
		switch {
		case v.Packed != nil:
			packed += len(v.Packed.Data.Bytes())
		case isTable(v):
			p.tables = append(p.tables, v.Const.Bytes())
			p.measurePieces(v.Const.Bytes())
		}
	}
	if p.stats.Packed == 0 {
		return
	}
	p.file.Evict()
	if packed >= worthFreeing {
		debug.FreeOSMemory()
	}
}

// measurePieces records how many bytes of a table a page fault brings into memory. A table that is not in a file is in memory whole.
func (p *Program) measurePieces(table []byte) {
	piece := int64(len(table))
	if p.file.EvictPart(table) {
		if piece = memory.FaultBytes(table); piece == 0 {
			return
		}
		p.file.EvictPart(table)
	}
	if p.pieces == nil {
		p.pieces = map[*byte]int64{}
	}
	p.pieces[unsafe.SliceData(table)] = piece
}
