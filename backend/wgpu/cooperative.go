package wgpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/x448/float16"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/tensor"
)

// Cooperative matrices are WGSL's way to the matrix units: a subgroup multiplies matrices of 16 × 16, of which every invocation holds a
// part. Operands are float16, all sums float32. wgpu-native 29 knows them as an experimental feature, which its C API cannot enable.

const (
	coopSide     = 16 // rows and columns of a cooperative matrix
	coopSubgroup = 32 // invocations of a subgroup
	coopStaged   = 2  // unused vec4<f16> between the rows of a tile, so that neighbouring rows are in different banks
)

// coopTiles are the tiles for products by cooperative matrices: a subgroup computes high × wide. The rules are those of a prototype on an
// H200.
var coopTiles = []rule{{tile{128, 128, 32, 64, 64}, wantedGroups, false}, {tile{128, 64, 32, 64, 32}, wantedGroups, false},
	{tile{64, 64, 64, 32, 32}, wantedGroups / 2, false},
	{tile{32, 64, 64, 16, 32}, 100, false}, {tile{32, 32, 64, 16, 16}, 0, true}, {tile{64, 128, 32, 32, 64}, never, false},
	{tile{64, 32, 64, 32, 16}, never, false},
	{tile{128, 64, 64, 64, 32}, never, false}}

// cooperative reports whether subgroups compute the tile.
func (t tile) cooperative() bool { return t.high >= coopSide }

// stagePitch returns the distance between rows of staged results, in vec4<f32>.
func (t tile) stagePitch() int { return t.wide/4 + 1 }

// coopBytes returns the workgroup memory of a tile, in bytes.
func (t tile) coopBytes() int {
	return 8*(t.rows*(t.depth/4+coopStaged)+t.depth*(t.cols/4+coopStaged)) + 16*t.size()/coopSubgroup*coopSide*t.stagePitch()
}

// cooperate makes the kernel of a product by cooperative matrices. Tiles go through workgroup memory as in every product, rows as stored.
func (s *tileKernel) cooperate(e *epilogue) {
	t := s.p.tile
	pitchA, pitchB, stage := t.depth/4+coopStaged, t.cols/4+coopStaged, t.stagePitch()
	down, right, across := t.high/coopSide, t.wide/coopSide, t.cols/t.wide
	each := func(f func(i, j int)) {
		for i := range down {
			for j := range right {
				f(i, j)
			}
		}
	}
	s.share("stage", "vec4<f32>", t.size()/coopSubgroup*coopSide*stage)
	s.put("let lane = lid %% %du;\nlet part = lid / %du;", coopSubgroup, coopSubgroup)
	s.put("let part_m = part / %du * %du;\nlet part_n = part %% %du * %du;", across, t.high, across, t.wide)
	each(func(i, j int) { s.put("var c%d_%d = coop_mat16x16<f32, C>();", i, j) })
	s.bring("k0")
	s.put("for (var k = k0; k < k1; k += %du) {", t.depth)
	for l := range s.loadsA {
		s.put("left[ar%d * %du + ak%d] = ra%d;", l, pitchA, l, l)
	}
	for l := range s.loadsB {
		s.put("right[bk%d * %du + bn%d] = rb%d;", l, pitchB, l, l)
	}
	s.put("workgroupBarrier();\nlet next = k + %du;\nif (next < k1) {", t.depth)
	s.bring("next")
	s.put("}")
	for k := 0; k < t.depth; k += coopSide {
		s.put("{")
		for i := range down {
			s.put("let a%d = coopLoadT<coop_mat16x16<f16, A>>(&left[(part_m + %du) * %du + %du], %du);", i, i*coopSide, pitchA, k/4, pitchA)
		}
		for j := range right {
			s.put("let b%d = coopLoadT<coop_mat16x16<f16, B>>(&right[%du + (part_n + %du) / 4u], %du);", j, k*pitchB, j*coopSide, pitchB)
		}
		each(func(i, j int) { s.put("c%d_%d = coopMultiplyAdd(a%d, b%d, c%d_%d);", i, j, i, j, i, j) })
		s.put("}")
	}
	s.put("workgroupBarrier();\n}")
	column := s.beginResults(e)
	for i := range down {
		for j := range right {
			s.put("coopStoreT(c%d_%d, &stage[part * %du + %du], %du);", i, j, coopSide*stage, j*coopSide/4, stage)
		}
		s.put("workgroupBarrier();\nfor (var v = lane; v < %du; v += %du) {\nlet sr = v / %du;\nlet sc = v %% %du;", coopSide*t.wide/4,
			coopSubgroup, t.wide/4, t.wide/4)
		s.put("let r = m0 + part_m + %du + sr;\nlet q = n0 + part_n / 4u + sc;\nif (r < %s && q < %s) {", i*coopSide, s.m, s.n)
		e.write(s.shader, fmt.Sprintf("stage[(part * %du + sr) * %du + sc]", coopSide, stage), "base", "r", fmt.Sprintf("(%sq)", column))
		s.put("} }\nworkgroupBarrier();")
	}
}

// Cooperative reports why cooperative matrices, which a device gives, do not work: products of float16 go without them then.
func Cooperative(device string) error {
	d, err := openDevice(backend.Options{Device: device, Precision: tensor.F16})
	if err != nil {
		return err
	}
	defer d.Close()
	return d.noCoop
}

// findCooperative decides whether products are computed by cooperative matrices.
func (d *Device) findCooperative() {
	if !d.half || !d.gpu.Adapter.Has(native.CooperativeMatrix) {
		return
	}
	if err := d.tryCooperative(); err != nil {
		d.noCoop = fmt.Errorf("%v is given and does not work: %w", native.CooperativeMatrix, err)
	}
	d.coop = d.noCoop == nil
}

// tryCooperative reports why products by cooperative matrices do not work on the device: the library or the driver may refuse the kernel,
// subgroups may be of another size, and tiles may need more workgroup memory than there is.
func (d *Device) tryCooperative() error {
	for _, r := range coopTiles {
		if n := r.coopBytes(); n > d.workgroupBytes {
			return fmt.Errorf("a tile takes %d bytes of workgroup memory, and there are %d", n, d.workgroupBytes)
		}
	}
	return d.tryProduct(product{half: true, narrow: true, coop: true}, coopTiles[len(coopTiles)-1].tile)
}

// tryProduct multiplies a matrix by one that puts its columns in the opposite order, and looks at the result.
func (d *Device) tryProduct(p product, t tile) error {
	l := &tuner{d: d}
	defer l.release()
	p.M, p.N, p.K, p.tiling = t.rows, t.cols, t.cols, tiling{t, 1}
	x, y := l.operand(tensor.F32, p.M, p.K), l.operand(tensor.F32, p.M, p.N)
	w := &operand{Operand: gpu.RowMajor(tensor.F32, p.K, p.N), memory: l.constant("vec4<f16>", 2*p.K*p.N)}
	left, right := factor{operand: x, Factor: gpu.Factor{Row: p.K, Col: 1}}, factor{operand: w, Factor: gpu.Factor{Row: p.N, Col: 1}}
	calls, err := l.ready([][]launch{p.launches(&left, p.floats(&right, true), &epilogue{scale: 1, y: y, cols: p.N}, nil, true)})
	if err != nil {
		return err
	}
	at := func(r, c int) float32 { return float32((r*31 + c*7) % 64) }
	values, weights := make([]byte, 4*p.M*p.K), make([]byte, 2*p.K*p.N)
	for r := range p.M {
		for c := range p.K {
			binary.LittleEndian.PutUint32(values[4*(r*p.K+c):], math.Float32bits(at(r, c)))
		}
	}
	for k := range p.K {
		binary.LittleEndian.PutUint16(weights[2*(k*p.N+p.N-1-k):], float16.Fromfloat32(1).Bits())
	}
	back, err := l.buffer(int64(4*p.M*p.N), native.MapRead|native.CopyTarget)
	if err != nil {
		return err
	}
	if err := errors.Join(l.arena.Write(int64(x.off), values), l.real[w.memory.constant].Write(0, weights)); err != nil {
		return err
	}
	e := d.gpu.Encoder()
	if err := e.Begin(); err != nil {
		return err
	}
	e.Dispatch(calls[0][0].pipeline, calls[0][0].group, calls[0][0].groups)
	e.Copy(back, 0, l.arena, int64(y.off), back.Size)
	if err := e.Submit(); err != nil {
		return err
	}
	got, err := back.Map(back.Size)
	if err != nil {
		return err
	}
	defer back.Unmap()
	for r := range p.M {
		for c := range p.N {
			if z := math.Float32frombits(binary.LittleEndian.Uint32(got[4*(r*p.N+c):])); z != at(r, p.N-1-c) {
				return fmt.Errorf("a product of 16 × 16 matrices is wrong: element %d,%d is %v and not %v", r, c, z, at(r, p.N-1-c))
			}
		}
	}
	return nil
}
