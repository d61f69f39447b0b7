package wgpu

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/rlxc/rlxc/internal/native"
	"github.com/rlxc/rlxc/internal/sharing"
)

// An accelerator is a GPU with all that is made on it once, however many Devices use it: programs of one model at several
// precisions, and of several models, share its pipelines, and those of one model its weights.
type accelerator struct {
	gpu            *native.Device
	adapters       []*native.Adapter
	binding        int64  // the largest binding in bytes
	subgroups      bool   // reductions go by subgroups
	identity       string // names the device, its driver and the library
	tuneFrom       int    // operations of the products that are worth it to try tilings out on the device
	workgroupBytes int
	users          int // Devices; guarded by accelerators

	compiling sync.Mutex
	pipelines map[string]*native.Pipeline // pipeline of each shader, by its source; compiling guards it

	mu        sync.Mutex
	constants sharing.Table[*constant] // constants of all models
	weights   weights                  // constants on the device, uploaded when a program first needs them
}

// adapterKey names an adapter of this process.
type adapterKey struct {
	lib    *native.Library
	number int // index in the library's list of adapters
}

// accelerators are the accelerators in use, by adapter.
var accelerators = struct {
	sync.Mutex
	by map[adapterKey]*accelerator
}{by: map[adapterKey]*accelerator{}}

// share returns the accelerator that which names, opened if no Device uses it yet. One that was lost, or reported an error that
// belongs to no call, stays with those who have it: others open the GPU again.
func share(which string) (*accelerator, error) {
	lib, err := native.Open("")
	if err != nil {
		return nil, err
	}
	adapters := lib.Adapters()
	a, err := native.Choose(adapters, which)
	if err != nil {
		releaseAdapters(adapters)
		return nil, err
	}
	accelerators.Lock()
	defer accelerators.Unlock()
	key := adapterKey{lib, slices.Index(adapters, a)}
	if x := accelerators.by[key]; x != nil && x.gpu.Usable() {
		releaseAdapters(adapters)
		x.users++
		return x, nil
	}
	x, err := newAccelerator(lib, adapters, a)
	if err == nil {
		accelerators.by[key] = x
	}
	return x, err
}

// newAccelerator opens an adapter, for one user.
func newAccelerator(lib *native.Library, adapters []*native.Adapter, a *native.Adapter) (*accelerator, error) {
	gpu, err := a.Open()
	if err != nil {
		releaseAdapters(adapters)
		return nil, err
	}
	x := &accelerator{
		gpu: gpu, adapters: adapters, users: 1, pipelines: map[string]*native.Pipeline{}, weights: weights{},
		binding:        int64(min(a.Limits.MaxStorageBufferBindingSize, a.Limits.MaxBufferSize)) &^ (alignment - 1),
		workgroupBytes: int(a.Limits.MaxComputeWorkgroupStorageSize),
		subgroups:      a.Has(native.Subgroup),
		identity:       fmt.Sprintf("%s, %s, %s, wgpu-native %s", a.Name, a.Driver, a.API, lib.Version()),
		tuneFrom:       worthTuning,
	}
	if a.Kind == native.CPU {
		x.tuneFrom = math.MaxInt
	}
	return x, nil
}

// leave ends the use by one Device. The last one releases all that was made.
func (x *accelerator) leave() {
	accelerators.Lock()
	defer accelerators.Unlock()
	if x.users--; x.users > 0 {
		return
	}
	for key, y := range accelerators.by {
		if x == y {
			delete(accelerators.by, key)
		}
	}
	for _, p := range x.pipelines {
		p.Release()
	}
	x.weights.release()
	x.gpu.Close()
	releaseAdapters(x.adapters)
}

func releaseAdapters(list []*native.Adapter) {
	for _, a := range list {
		a.Release()
	}
}
