// Package wgpu runs planned graphs on a GPU through WebGPU, by kernels that are WGSL source made for each node; what has no
// kernel runs by the op's own Eval on the host, between two passes. wgpu-native is opened at run time (package native).
//
// Importing this package registers the backend. The rest of it is not part of rlxc's public API and may change without
// notice.
package wgpu

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/x448/float16"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func init() {
	backend.Register(backend.Backend{Name: "wgpu", Open: func(o backend.Options) (backend.Device, error) { return openDevice(o) },
		Precisions: []tensor.DType{tensor.F16}, Streams: true})
}

// A Device is what the programs of one compilation run on: an accelerator, which other Devices may share, and how it is used.
type Device struct {
	*accelerator
	*gpu.Runtime
	target *target.Target
	table  table
	half   bool  // products with constant matrices take their operands in float16
	coop   bool  // and are computed by cooperative matrices
	noCoop error // why not, of an adapter that gives them

	// Guarded by the accelerator's mu.
	model     map[*tensor.Tensor]*constant // the constants that all programs share
	held      map[weightKey]bool           // the accelerator's weights that this Device uses
	streaming gpu.Weights                  // which of the model's constants stay on the host
	host      weights                      // weights that stay on the host, as programs have arranged them
}

// alignment of the arena's buffers: whole vec4, and a cache line.
const alignment = 64

// openDevice opens the device that o.Device names: a number or a part of its name; the best one where it is empty.
func openDevice(o backend.Options) (*Device, error) {
	if o.CPU != "" {
		return nil, fmt.Errorf("backend wgpu has no CPU level %q", o.CPU)
	}
	x, err := share(o.Device)
	if err != nil {
		return nil, err
	}
	return x.device(o)
}

// device makes a Device of an accelerator that the caller has the use of; without one, that use ends.
func (x *accelerator) device(o backend.Options) (*Device, error) {
	a := x.gpu.Adapter
	d := &Device{
		accelerator: x, half: o.Precision == tensor.F16,
		model: map[*tensor.Tensor]*constant{}, held: map[weightKey]bool{}, streaming: gpu.Weights{Limit: o.DeviceWeights}, host: weights{},
	}
	d.Runtime = &gpu.Runtime{Driver: d, Target: d.Target, Profile: o.Profile}
	if d.half && !a.Has(native.ShaderF16) {
		d.Close()
		return nil, fmt.Errorf("%s has no float16 arithmetic (shader-f16): leave out precision f16", a.Name)
	}
	d.findCooperative()
	d.table = kernelTable(d)
	t := target.Target{Name: "wgpu/" + a.Name, Align: alignment, Segment: d.binding, Kernels: d.table.Kernels()}
	var err error
	if d.target, err = target.New(t); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Target implements backend.Device.
func (d *Device) Target() *target.Target { return d.target }

// Prepare implements backend.Device: it notes the model's constants, which are uploaded once, when a program first needs
// them.
func (d *Device) Prepare(g *ir.Graph) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range g.Consts() {
		if v.Const != nil && v.Const.DType() != tensor.String && d.model[v.Const] == nil {
			d.model[v.Const] = d.constant(v.Const)
		}
	}
	return 0, d.streaming.Add(g, d.bytes, func(t *tensor.Tensor) *tensor.Tensor { return t })
}

// bytes is the size of a constant on the device: kernels take 16-bit floats as float32, but for products.
func (d *Device) bytes(t *tensor.Tensor) int64 {
	if target.IsHalf(t.DType()) {
		return 2 * t.Size()
	}
	return t.Size()
}

// Close implements backend.Device: it releases what no other Device uses.
func (d *Device) Close() error {
	d.mu.Lock()
	for k := range d.held {
		if w := d.weights[k]; w.users == 1 {
			w.release()
			delete(d.weights, k)
		} else {
			w.users--
		}
	}
	for _, c := range d.model {
		d.leaveConstant(c)
	}
	d.held, d.model, d.host = nil, nil, nil
	d.mu.Unlock()
	d.leave()
	return nil
}

// fits reports whether the device takes a shader's parameters and bindings.
func (d *Device) fits(s *shader) bool {
	return len(s.params) <= maxParams && len(s.kinds) <= int(d.gpu.Adapter.Limits.MaxStorageBuffersPerShaderStage)
}

// compile makes the pipelines of shaders, each source once.
func (d *accelerator) compile(shaders []*shader) ([]*native.Pipeline, error) {
	d.compiling.Lock()
	defer d.compiling.Unlock()
	sources := make([]string, len(shaders))
	var missing []native.Shader
	for i, s := range shaders {
		sources[i] = s.source()
		if _, ok := d.pipelines[sources[i]]; !ok {
			d.pipelines[sources[i]] = nil
			bindings := append([]native.Binding{native.Uniform}, s.kinds...)
			missing = append(missing, native.Shader{Name: s.name, Code: sources[i], Bindings: bindings, Checked: s.checked})
		}
	}
	made, err := d.gpu.Compile(missing)
	for i, s := range missing {
		if err != nil {
			delete(d.pipelines, s.Code)
		} else {
			d.pipelines[s.Code] = made[i]
		}
	}
	if err != nil {
		return nil, err
	}
	out := make([]*native.Pipeline, len(shaders))
	for i, source := range sources {
		out[i] = d.pipelines[source]
	}
	return out, nil
}

// A weight is a constant on the device: one buffer, or, above the largest binding, several of that many rows each. A weight of the host has
// no buffers. The steps that read it see a copy, which has placeholders for parts of the stream.
type weight struct {
	pieces []*native.Buffer
	rows   int
	users  int      // Devices, of an accelerator's weight
	host   [][]byte // bytes of each piece of a weight of the host; otherwise nil
}

func (w *weight) release() {
	for _, b := range w.pieces {
		b.Release()
	}
}

// weights are constants on the device, as they are or arranged for a kernel.
type weights map[weightKey]*weight

type weightKey struct {
	of   any    // a *constant, or the *tensor.Tensor of a binding's own
	how  string // arranged, empty for as it is
	with any    // what else the arrangement comes from, or nil
}

func (m weights) release() {
	for _, w := range m {
		w.release()
	}
}

// upload brings bytes of that many rows to the device.
func (d *Device) upload(data []byte, rows int) (*weight, error) {
	w, err := d.cut(data, rows)
	if err != nil {
		return nil, err
	}
	for _, data := range w.host {
		b, err := d.gpu.Buffer("a weight", int64(pad(len(data), 16)), native.ForStorage|native.CopyTarget)
		if err == nil {
			w.pieces = append(w.pieces, b)
			err = b.Write(0, data)
		}
		if err != nil {
			w.release()
			return nil, err
		}
	}
	w.host = nil
	return w, nil
}

// cut returns a weight of the host: bytes in pieces of whole rows that can be bound.
func (d *Device) cut(data []byte, rows int) (*weight, error) {
	w := &weight{rows: rows}
	row := int64(len(data))
	if rows > 0 {
		row /= int64(rows)
	}
	if int64(len(data)) > d.binding {
		w.rows = int(d.binding / max(row, 1))
		if w.rows == 0 {
			return nil, errOnHost
		}
	}
	for {
		n := min(int64(len(data)), int64(max(w.rows, 1))*row)
		w.host = append(w.host, data[:n:n])
		if data = data[n:]; len(data) == 0 {
			return w, nil
		}
	}
}

// stream returns a weight of the host as the current step reads it.
func (b *binder) stream(w *weight) *weight {
	seen := &weight{rows: w.rows}
	for _, data := range w.host {
		at := b.p.Stream(data)
		var piece *native.Buffer
		for p, other := range b.streamed {
			if other.node == b.node && other.Location == at {
				piece = p
			}
		}
		if piece == nil {
			piece = &native.Buffer{Size: int64(pad(len(data), 16))}
			b.streamed[piece] = streamed{at, b.node}
		}
		seen.pieces = append(seen.pieces, piece)
	}
	return seen
}

// weight finds or uploads a constant, one of 16-bit floats widened on request: the model's are shared, others belong to the
// binding.
func (b *binder) weight(t *tensor.Tensor, wide bool) (*weight, error) {
	rows := 1
	if t.Rank() > 0 {
		rows = t.Shape()[0]
	}
	if wide && target.IsHalf(t.DType()) {
		return b.shared(t, "wide", nil, func() ([]byte, int) { return floats(t).Bytes(), rows })
	}
	return b.shared(t, "", nil, func() ([]byte, int) { return t.Bytes(), rows })
}

// arrange makes a constant matrix one that is not transposed, [N,K] becoming [K,N], or of float16, or both, once.
func (b *binder) arrange(o *operand, t *tensor.Tensor, transposed, half bool) error {
	rows, cols := o.Shape[0], o.Shape[1]
	if transposed {
		o.Shape = tensor.Shape{cols, rows}
	}
	w, err := b.shared(t, fmt.Sprintf("matrix, transposed: %t, half: %t", transposed, half), nil, func() ([]byte, int) {
		x := tensor.Of[float32](floats(t.Aligned()))
		if half {
			y := tensor.New(tensor.F16, o.Shape...)
			arrangeRows(tensor.Of[float16.Float16](y), x, rows, cols, transposed, float16.Fromfloat32)
			return y.Bytes(), o.Shape[0]
		}
		y := tensor.New(tensor.F32, o.Shape...)
		arrangeRows(tensor.Of[float32](y), x, rows, cols, transposed, func(v float32) float32 { return v })
		return y.Bytes(), o.Shape[0]
	})
	if err != nil {
		return err
	}
	if len(w.pieces) > 1 { // widened, it is larger than a binding
		return errOnHost
	}
	o.weight, o.memory = w, memory{constant: w.pieces[0]}
	if half {
		o.memory.word = "vec4<f16>"
	}
	o.Strides, o.off = []int{o.Shape[1], 1}, 0
	return nil
}

// arrangeRows converts a row-major matrix, and transposes it on request, on all processors.
func arrangeRows[T any](dst []T, src []float32, rows, cols int, transposed bool, convert func(float32) T) {
	toRow, toCol := cols, 1 // the distances of the arranged elements
	if transposed {
		toRow, toCol = 1, rows
	}
	var wg sync.WaitGroup
	for each, from := ceil(rows, runtime.GOMAXPROCS(0)), 0; from < rows; from += each {
		wg.Go(func() {
			for i := from; i < min(from+each, rows); i++ {
				for j, v := range src[i*cols:][:cols] {
					dst[i*toRow+j*toCol] = convert(v)
				}
			}
		})
	}
	wg.Wait()
}

// shared finds a constant on the device, arranged somehow, with another one if not nil, or uploads what make returns for it, which has that
// many rows. The model's constants are kept for all programs. One that stays on the host is arranged there.
func (b *binder) shared(t *tensor.Tensor, how string, with *tensor.Tensor, make func() (data []byte, rows int)) (*weight, error) {
	d := b.d
	d.mu.Lock()
	defer d.mu.Unlock()
	of, second := d.model[t], d.model[with]
	switch {
	case of == nil || with != nil && second == nil:
		return b.own.find(weightKey{t, how, with}, make, d.upload)
	case d.streaming.OnHost(t):
		w, err := d.host.find(weightKey{t, how, with}, make, d.cut)
		if err != nil {
			return nil, err
		}
		return b.stream(w), nil
	}
	k := weightKey{of, how, second}
	w, err := d.weights.find(k, make, d.upload)
	if err == nil && !d.held[k] {
		d.held[k] = true
		w.users++
	}
	return w, err
}

// find returns a weight, made of what data returns if it is not there.
func (m weights) find(k weightKey, data func() ([]byte, int), make func([]byte, int) (*weight, error)) (*weight, error) {
	if w := m[k]; w != nil {
		return w, nil
	}
	w, err := make(data())
	if err == nil {
		m[k] = w
	}
	return w, err
}
