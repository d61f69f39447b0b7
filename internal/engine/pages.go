package engine

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"unsafe"

	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
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

// fits returns an ErrMemory if the weights that the program packs on the heap are above the memory that the process may take, in bytes; 0
// if that is unknown. The system would kill the process while it packs. What runs read in the model's file does not count, since its pages
// can be dropped.
func (p *Program) fits(g *ir.Graph, available int64) error {
	if available <= 0 || p.file.Compiled() != nil {
		return nil
	}
	need := int64(runtimeBytes)
	for data, v := range distinct(g) {
		if v.Packed != nil || isTable(v) || len(v.Const.Shape()) < 2 || !slices.ContainsFunc(v.Uses, isProductWeight) {
			continue
		}
		size := int64(len(data))
		if d := cmp.Or(p.opts.Weights, p.opts.Precision); v.Type.DType == tensor.F32 && d != 0 {
			size = int64(d.Bytes(v.Const.Len()))
		}
		need += size
	}
	if need = memory.InGroup(need); need <= available {
		return nil
	}
	return WithKind(ErrMemory, fmt.Errorf("the packed weights need %d MiB, and this machine or container has %d MiB: take a larger "+
		"one, or compile the model elsewhere to a file (rlxc compile -o model.rlxc), whose weights are mapped", need>>20, available>>20))
}

// isProductWeight reports whether a use of a constant is the right operand of a product, which Prepare packs.
func isProductWeight(u ir.Use) bool {
	switch u.Node.Op.Kind() {
	case ir.KindMatMul, ir.KindQMatMul, ir.KindMatMulNBits:
		return u.Index == 1
	}
	return false
}
