// Package cuda runs planned graphs on NVIDIA's GPUs. It needs the driver alone, which it opens at run time without cgo (package
// driver). Kernels are PTX, generated from the CUDA C++ in _gen, which the driver compiles once on each machine. An op without a
// kernel runs by its Eval on the host.
//
// This package is not part of rlxc's public API and may change without notice.
package cuda

import (
	"errors"
	"fmt"
	"sync"

	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/driver"
	"github.com/rlxc/rlxc/internal/gpu"
	"github.com/rlxc/rlxc/internal/sharing"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

func init() {
	backend.Register(backend.Backend{Name: "cuda", Open: func(o backend.Options) (backend.Device, error) { return openDevice(o) },
		Precisions: []tensor.DType{tensor.TF32, tensor.F16, tensor.BF16}, Streams: true})
}

// A Device is a GPU.
type Device struct {
	*gpu.Runtime
	ctx       *driver.Context
	target    *target.Target
	table     table
	modules   modules
	precision tensor.DType // type of intermediate values; Invalid for the model's own types. tf32 concerns only products
	rounded   sharing.Slab // constants, rounded to precision
	identity  string       // names the device and its driver

	mu        sync.Mutex
	model     map[*tensor.Tensor]*tensor.Tensor // for each constant of a program, the one constant of that content which all programs share
	contents  sharing.Table[constant]
	weights   weights        // constants on the device, uploaded when a program first needs them
	streaming gpu.Weights    // which constants stay on the host
	owned     map[owned]bool // objects of programs and instances that were not closed or collected
}

// A constant is a constant of a model.
type constant struct{ *tensor.Tensor }

// Content implements sharing.Holder.
func (c constant) Content() (any, *tensor.Tensor) { return nil, c.Tensor }

// alignment is that of the arena's buffers in bytes: a cache line, and no less than the copy engine needs.
const alignment = 128

// oldestCapability is the compute capability that the kernels need at least.
const oldestCapability = 75

// openDevice opens the device that o.Device names: a number or a part of its name; the best one where it is empty.
func openDevice(o backend.Options) (*Device, error) {
	if o.CPU != "" {
		return nil, fmt.Errorf("backend cuda has no CPU level %q", o.CPU)
	}
	lib, err := driver.Open("")
	if err != nil {
		return nil, err
	}
	list, err := lib.Devices()
	if err != nil {
		return nil, err
	}
	info, err := driver.Choose(list, o.Device)
	if err != nil {
		return nil, err
	}
	if info.Capability() < oldestCapability {
		return nil, fmt.Errorf("%s has compute capability %d.%d: %d.%d is needed", info.Name, info.Major, info.Minor,
			oldestCapability/10, oldestCapability%10)
	}
	if (o.Precision == tensor.BF16 || o.Precision == tensor.TF32) && info.Capability() < 80 {
		return nil, fmt.Errorf("%s has no products of %s: use f16", info.Name, o.Precision)
	}
	d := &Device{precision: o.Precision, model: map[*tensor.Tensor]*tensor.Tensor{}, owned: map[owned]bool{},
		streaming: gpu.Weights{Limit: o.DeviceWeights}}
	d.Runtime = &gpu.Runtime{Driver: d, Target: d.Target, Profile: o.Profile, StagedUploads: true}
	d.identity = fmt.Sprintf("%s, compute capability %d.%d, driver %d.%d", info.Name, info.Major, info.Minor,
		info.Driver/1000, info.Driver%1000/10)
	if d.ctx, err = lib.NewContext(info); err != nil {
		return nil, err
	}
	d.modules = modules{ctx: d.ctx, loaded: map[string]*kernel{}, folder: cacheFolder(info)}
	d.table = kernelTable(d)
	t := target.Target{Name: "cuda/" + info.Name, Align: alignment, Kernels: d.table.Kernels()}
	if d.target, err = target.New(t); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Target implements backend.Device.
func (d *Device) Target() *target.Target { return d.target }

// Prepare implements backend.Device: it narrows the model's inner values to the requested precision, and lists the constants, which are
// uploaded once, when a program first needs them. It waits until the device, which Open begins to initialise, is ready.
func (d *Device) Prepare(g *ir.Graph) (int, error) {
	if target.IsHalf(d.precision) {
		if err := narrow(g, d.precision, &d.rounded); err != nil {
			return 0, err
		}
	}
	if err := d.ctx.Ready(); err != nil {
		return 0, &backend.Unavailable{Err: err}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.limitWeights(); err != nil {
		return 0, err
	}
	var added []*tensor.Tensor // constants of contents that were not known
	for _, v := range g.Consts() {
		if v.Const == nil || d.model[v.Const] != nil {
			continue
		}
		same, ok := d.contents.Find(nil, v.Const)
		if !ok {
			same = constant{v.Const}
			d.contents.Add(same)
			added = append(added, same.Tensor)
		}
		d.model[v.Const] = same.Tensor
	}
	err := d.streaming.Add(g, func(t *tensor.Tensor) int64 { return inSlab(t.Size()) },
		func(t *tensor.Tensor) *tensor.Tensor { return d.model[t] })
	for _, t := range added {
		if !d.streaming.OnHost(t) {
			d.weights.expected += inSlab(t.Size())
		}
	}
	return 0, err
}

// limitWeights limits the weights by the free memory of the device, unless the options do. The caller holds mu.
func (d *Device) limitWeights() error {
	if d.streaming.Limit > 0 {
		return nil
	}
	leave, err := d.ctx.Enter()
	if err != nil {
		return &backend.Unavailable{Err: err}
	}
	defer leave()
	free, err := d.ctx.Free()
	if err != nil {
		return &backend.Unavailable{Err: err}
	}
	d.streaming.Limit = free - free/8 // an eighth is for arenas
	return nil
}

// Close implements backend.Device: it releases the device and all that was made on it.
func (d *Device) Close() error {
	leave, err := d.ctx.Enter()
	if err != nil { // a lost device has nothing to give back
		return errors.Join(d.rounded.Close(), d.ctx.Close())
	}
	defer leave()
	d.mu.Lock()
	defer d.mu.Unlock()
	for x := range d.owned {
		x.free()
	}
	clear(d.owned)
	d.weights.free(d.ctx)
	d.modules.unload()
	return errors.Join(d.rounded.Close(), d.ctx.Close())
}

func ceil(a, b int) int { return (a + b - 1) / b }
