package engine

import (
	"math"
	"runtime/metrics"
	"unsafe"

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
	// faultAround is how much of a mapped file one page fault brings where it is not measured: Linux maps the pages around it that are in
	// the page cache too (fault_around_bytes, whose default this is). From 6.18 on it maps the whole piece in which the page cache holds
	// the file: up to 2 MiB where the file was written so. Package artifact writes tables in small pieces.
	faultAround = 64 << 10
)

// Sum is the sum of the parts, in bytes.
func (p Resident) Sum() int64 { return p.File + p.Packed + p.Arena + p.Inputs + p.Runtime }

// resident estimates the memory of a process that runs a bound graph and nothing else.
func (p *plans) resident(g *ir.Graph, planned int64) Resident {
	parts := Resident{Arena: planned, Inputs: inputBytes(g), Runtime: runtimeBytes}
	for data, v := range distinct(g) {
		switch {
		case v.Packed != nil && p.filePacked:
			parts.File += int64(len(data))
		case v.Packed != nil:
			parts.Packed += int64(len(data))
		default:
			parts.File += p.touched(g, v)
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

// touched returns the number of bytes of a constant that a run of g brings into memory: all, unless it only looks rows up in a file.
func (p *plans) touched(g *ir.Graph, v *ir.Value) int64 {
	size := int64(len(v.Const.Bytes()))
	if !isTable(v) {
		return size
	}
	piece, measured := p.pieces[unsafe.SliceData(v.Const.Bytes())]
	if !measured {
		piece = faultAround
	}
	if piece >= size {
		return size
	}
	missed := 1.0               // the share that no row brings
	for _, n := range g.Nodes { // the constant's list of uses has the nodes of the planned graph
		for i, x := range n.Inputs {
			if x == v {
				rows := ir.Use{Node: n, Index: i}.Rows().Type.Elements()
				missed *= math.Pow(1-float64(piece)/float64(size), float64(rows))
			}
		}
	}
	return int64(float64(size) * (1 - missed))
}

// isTable reports whether runs look up so few rows of a constant that it need not be in memory whole.
func isTable(v *ir.Value) bool { return v.IsTable() && len(v.Const.Bytes()) > faultAround }

// Allocated is the number of bytes that were ever allocated on the heap. Unlike runtime.ReadMemStats it stops nothing: a server plans while
// it runs.
func Allocated() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}
