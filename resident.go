package rlxc

import (
	"math"
	"runtime/debug"

	"github.com/rlxc/rlxc/ir"
)

// ResidentParts is what the resident memory of a process that runs a program consists of, in bytes.
type ResidentParts struct {
	// File is the pages of the model's file that runs read. Of an ONNX file what is packed is not needed again; the rest is read,
	// but of a table of embeddings only the pages around the rows that are looked up: as many as rows drawn at random touch.
	// A compiled file counts whole: few rows are enough to bring most of it, in the large pieces that it was written in.
	File int64 `json:"file"`
	// Packed is the weights laid out for the kernels, where the file does not hold them so.
	Packed int64 `json:"packed"`
	Arena  int64 `json:"arena"`
	// Runtime is the Go program itself.
	Runtime int64 `json:"runtime"`
}

const (
	// runtimeBytes is the resident memory of a Go program with this package before it holds any weights: the pages of the
	// binary that run (10 to 12 MB), and a heap with the model's graph, plans and what waits for the collector (3 to 9 MB).
	// Measured on linux/amd64.
	runtimeBytes = 18 << 20
	// faultAround is how much of a mapped file one page fault brings: Linux maps the pages around it that are in the page
	// cache too (fault_around_bytes, whose default this is).
	faultAround = 64 << 10
	// worthFreeing is how much must have been packed for what that left behind to be collected at once.
	worthFreeing = 16 << 20
	// slack is how much less than an earlier run one must need for the file's pages to be given back: backend cpu keeps as much
	// of an arena.
	slack = 8 << 20
)

func (p ResidentParts) sum() int64 { return p.File + p.Packed + p.Arena + p.Runtime }

// resident estimates the memory of a process that runs a bound graph and nothing else.
func (p *Program) resident(g *ir.Graph, arena int64) ResidentParts {
	_, compiled := p.file.(*compiledSource)
	parts := ResidentParts{Arena: arena, Runtime: runtimeBytes}
	for _, v := range g.Consts() {
		switch {
		case v.Packed != nil && compiled && p.stats.Packed == 0:
			parts.File += int64(len(v.Packed.Data.Bytes()))
		case v.Packed != nil:
			parts.Packed += int64(len(v.Packed.Data.Bytes()))
		case compiled:
			parts.File += int64(len(v.Const.Bytes()))
		default:
			parts.File += touched(v)
		}
	}
	return parts
}

// touched is the number of bytes of a constant that a run brings into memory: all, unless it only looks rows up.
func touched(v *ir.Value) int64 {
	size := int64(len(v.Const.Bytes()))
	missed := 1.0 // the share that no row brings
	for _, u := range v.Uses {
		rows := 0
		switch op := u.Node.Op.(type) {
		case ir.Gather:
			if u.Index == 0 && op.Axis == 0 {
				rows = elements(u.Node.Inputs[1])
			}
		case ir.Embedding:
			if u.Index >= ir.EmbeddingTable && u.Index+1 < len(u.Node.Inputs) {
				rows = elements(u.Node.Inputs[u.Index+1])
			}
		}
		if rows == 0 || size <= faultAround {
			return size
		}
		missed *= math.Pow(1-faultAround/float64(size), float64(rows))
	}
	return int64(float64(size) * (1 - missed))
}

// elements is the number of rows that an operand of indices looks up; 0 where there is none: rows in order, or all.
func elements(index *ir.Value) int {
	if index == nil {
		return 0
	}
	return index.Type.Sizes().Elements()
}

// tidy gives back what compiling took and no run needs: the file's pages, which packing has read, and weights on their way to
// their packed form.
func (p *Program) tidy() {
	if p.stats.Packed == 0 {
		return
	}
	p.file.Evict()
	packed := 0
	for _, v := range p.graph.Consts() {
		if v.Packed != nil {
			packed += len(v.Packed.Data.Bytes())
		}
	}
	if packed >= worthFreeing {
		debug.FreeOSMemory()
	}
}

// settle follows the sizes of runs: after much smaller ones the rows that larger ones have looked up leave memory, as the
// rest of their arena does. A compiled file's weights are all needed at any size, and stay.
func (s *Session) settle(need *ResidentParts) {
	if need == nil {
		return // of another backend
	}
	now := need.Arena + need.File
	if _, compiled := s.p.file.(*compiledSource); !compiled && now+slack < s.held {
		s.p.file.Evict()
		s.held = now
	}
	s.held = max(s.held, now)
}
