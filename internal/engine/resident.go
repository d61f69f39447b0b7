package engine

import (
	"math"
	"runtime/debug"

	"github.com/rlxc/rlxc/arena"
	"github.com/rlxc/rlxc/internal/memory"
	"github.com/rlxc/rlxc/ir"
)

// Resident is what the resident memory of a process that runs a program consists of, in bytes.
type Resident struct {
	// File is the pages of the model's file that runs read. Of an ONNX file what is packed is not needed again; the rest is read,
	// but of a table of embeddings only the pages around the rows that are looked up: as many as rows drawn at random touch.
	File int64
	// Packed is the weights laid out for the kernels, where the file does not hold them so.
	Packed int64
	Arena  int64
	// Inputs is the tensors that the caller has made.
	Inputs int64
	// Runtime is the Go program itself.
	Runtime int64
}

const (
	// runtimeBytes stands for the Go program where it is not measured: the pages of the binary that run, and a heap with the model's
	// graph and plans. Measured on linux/amd64.
	runtimeBytes = 18 << 20
	// faultAround is how much of a mapped file one page fault brings: Linux maps the pages around it that are in the page
	// cache too (fault_around_bytes, whose default this is). From 6.18 on it maps the whole piece in which the page cache holds
	// the file: up to 2 MB where the file was written so. Package artifact writes tables in small pieces.
	faultAround = 64 << 10
	// worthFreeing is how much garbage packing makes before it is collected at once.
	worthFreeing = 16 << 20
)

// Sum is what the parts add up to.
func (p Resident) Sum() int64 { return p.File + p.Packed + p.Arena + p.Inputs + p.Runtime }

// resident estimates the memory of a process that runs a bound graph and nothing else.
func (p *Program) resident(g *ir.Graph, planned int64) Resident {
	compiled := p.file.Compiled() != nil
	parts := Resident{Arena: planned, Inputs: inputBytes(g), Runtime: runtimeBytes}
	for data, v := range distinct(g) {
		switch {
		case v.Packed != nil && compiled && p.stats.Packed == 0:
			parts.File += int64(len(data))
		case v.Packed != nil:
			parts.Packed += int64(len(data))
		default:
			parts.File += touched(v)
		}
	}
	return parts
}

func inputBytes(g *ir.Graph) (n int64) {
	for _, v := range g.Inputs {
		n += bytesOf(v)
	}
	return n
}

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

// touched is the number of bytes of a constant that a run brings into memory: all, unless it only looks rows up.
func touched(v *ir.Value) int64 {
	size := int64(len(v.Const.Bytes()))
	if !isTable(v) {
		return size
	}
	missed := 1.0 // the share that no row brings
	for _, u := range v.Uses {
		rows := u.Rows().Type.Elements()
		missed *= math.Pow(1-faultAround/float64(size), float64(rows))
	}
	return int64(float64(size) * (1 - missed))
}

// isTable reports whether runs look up so few rows of a constant that it need not be in memory whole.
func isTable(v *ir.Value) bool { return v.IsTable() && len(v.Const.Bytes()) > faultAround }

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

// settle follows the sizes of runs: after much smaller ones the rows that larger ones have looked up leave memory, as the
// rest of their arena does.
func (s *Session) settle(need *Resident) {
	if need == nil {
		return // of another backend
	}
	now := need.Arena + need.File
	if now+arena.Slack < s.held {
		for _, t := range s.p.tables {
			s.p.file.EvictPart(t)
		}
		s.held = now
	}
	s.held = max(s.held, now)
}
