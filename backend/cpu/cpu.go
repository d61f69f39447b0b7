// Package cpu runs planned graphs on the processor, by the kernels of package kernel; what has none runs by the op's own
// Eval.
//
// Importing this package registers the backend. The rest of it is not part of rlxc's public API and may change without
// notice.
package cpu

import (
	"cmp"
	"fmt"
	"os"
	"runtime"

	"github.com/rlxc/rlxc/backend/cpu/kernel"
	"github.com/rlxc/rlxc/internal/backend"
	"github.com/rlxc/rlxc/internal/options"
	"github.com/rlxc/rlxc/internal/target"
	"github.com/rlxc/rlxc/ir"
	"github.com/rlxc/rlxc/tensor"
)

// maxThreads limits the number of threads for which memory is planned.
const maxThreads = 1 << 12

func init() {
	backend.Register(backend.Backend{Name: "cpu", Open: func(o backend.Options) (backend.Device, error) { return openDevice(o) },
		Precisions: []tensor.DType{tensor.BF16}, Weights: []tensor.DType{tensor.I8}})
}

// A Device is the processor, with up to that many threads for a run.
type Device struct {
	processor
	lacks   error // why this machine cannot run what is planned
	times   bool  // instances keep the times of their steps
	kernels map[ir.Kind]entry
}

// openDevice starts a device. Threads above the number of processors, and levels that the processor lacks, are another machine's: the
// device packs weights and plans memory for it, and Attach fails.
func openDevice(o backend.Options) (*Device, error) {
	if o.Device != "" {
		return nil, fmt.Errorf("backend cpu has one device; leave out device %q", o.Device)
	}
	threads := o.Threads
	switch {
	case threads == 0:
		threads = kernel.DefaultThreads()
	case threads < 0 || threads > maxThreads:
		return nil, fmt.Errorf("%d threads: want 1 to %d", threads, maxThreads)
	}
	set, err := kernel.Describe(cmp.Or(o.CPU, os.Getenv(options.EnvCPU)))
	if err != nil {
		return nil, err
	}
	lacks := set.Lacks
	if lacks == nil && threads > runtime.NumCPU() {
		lacks = fmt.Errorf("%d threads: this machine has 1 to %d", threads, runtime.NumCPU())
	}
	d := &Device{lacks: lacks, times: o.Profile, processor: processor{set: set, threads: threads,
		pool: kernel.NewPool(min(threads, runtime.NumCPU())), format: formatAsked(o), release: func([]byte) {}}}
	d.links = d.linkTable()
	d.kernels = d.kernelTable()
	t := target.Target{Name: "cpu/" + set.Level.String(), Align: cacheLine, Resizes: true}
	for k, r := range d.kernels {
		t.Kernels[k] = r.kernel()
	}
	if d.target, err = target.New(t); err != nil {
		return nil, err
	}
	return d, nil
}

// Target implements backend.Device.
func (d *Device) Target() *target.Target { return d.target }

// OnRelease implements backend.Releaser.
func (d *Device) OnRelease(release func(weight []byte)) { d.release = release }

// Close ends the use of the workers and of the packed weights.
func (d *Device) Close() error {
	d.pool.Close()
	return d.weights.close()
}
