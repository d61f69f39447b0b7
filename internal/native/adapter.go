package native

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// A Feature is a capability that a device has only if it is requested when the device is opened.
type Feature uint32

// The features that the backend requests if the adapter has them.
const (
	TimestampQuery        Feature = 0x9
	ShaderF16             Feature = 0xb
	Subgroup              Feature = 0x30021
	TimestampInsidePasses Feature = 0x30025
	CooperativeMatrix     Feature = 0x3003b
)

var featureNames = map[Feature]string{
	CooperativeMatrix: "cooperative-matrix", TimestampQuery: "timestamp-query", ShaderF16: "shader-f16", Subgroup: "subgroup",
	TimestampInsidePasses: "timestamp-query-inside-passes",
}

// String is the feature's name in WebGPU.
func (f Feature) String() string { return featureNames[f] }

// Kind says what sort of hardware an adapter is.
type Kind uint32

// The kinds of adapters, best first.
const (
	Discrete Kind = iota + 1
	Integrated
	CPU
	Unknown
)

// String is the kind in a word.
func (k Kind) String() string {
	return [...]string{"", "discrete GPU", "integrated GPU", "CPU", "unknown"}[min(k, Unknown)]
}

// An Adapter is a device that the library found.
type Adapter struct {
	Name, Driver, API string
	Kind              Kind
	Limits            Limits
	Features          []Feature
	// Refused is why a device could not be opened with CooperativeMatrix, which libraries may list and not give; nil before Open, and where
	// it was not asked for or given.
	Refused error

	lib    *Library
	handle uintptr
}

var backends = map[uint32]string{4: "DX12", 5: "Metal", 6: "Vulkan"}

// Adapters lists what the library finds, in its order. Release each.
func (l *Library) Adapters() []*Adapter {
	n := l.c.InstanceEnumerateAdapters.call(l.instance, 0, 0)
	if n == 0 {
		return nil
	}
	handles := make([]uintptr, n)
	n = l.c.InstanceEnumerateAdapters.call(l.instance, 0, uintptr(unsafe.Pointer(&handles[0])))
	var out []*Adapter
	for _, h := range handles[:n] {
		out = append(out, l.describe(h))
	}
	return out
}

// describe asks an adapter for its properties. The strings stay with the library: the function that frees them takes 96
// bytes by value, more than purego passes.
func (l *Library) describe(handle uintptr) *Adapter {
	info, a := new(adapterInfo), &Adapter{lib: l, handle: handle}
	l.c.AdapterGetInfo.call(handle, uintptr(unsafe.Pointer(info)))
	l.c.AdapterGetLimits.call(handle, uintptr(unsafe.Pointer(&a.Limits)))
	a.Name, a.Driver = goString(info.device.data, info.device.length), goString(info.description.data, info.description.length)
	a.Kind, a.API = Kind(info.kind), backends[info.backend]
	for f := range featureNames {
		if byte(l.c.AdapterHasFeature.call(handle, uintptr(f))) != 0 {
			a.Features = append(a.Features, f)
		}
	}
	slices.Sort(a.Features)
	return a
}

// Has reports whether the adapter has a feature.
func (a *Adapter) Has(f Feature) bool { return slices.Contains(a.Features, f) }

// Release releases the adapter. Devices that it has opened remain usable.
func (a *Adapter) Release() {
	if a.handle != 0 {
		a.lib.c.AdapterRelease.call(a.handle)
		a.handle = 0
	}
}

// Choose finds the adapter that which names: by its number in adapters, or by a part of its name; the best kind when it
// is empty.
func Choose(adapters []*Adapter, which string) (*Adapter, error) {
	if len(adapters) == 0 {
		return nil, errors.New("wgpu-native finds no adapter: this machine has no GPU whose Vulkan, Metal or DX12 driver is installed")
	}
	if which == "" {
		return slices.MinFunc(adapters, func(a, b *Adapter) int { return int(a.Kind) - int(b.Kind) }), nil
	}
	if i, err := strconv.Atoi(which); err == nil {
		if i < 0 || i >= len(adapters) {
			return nil, fmt.Errorf("there is no device %d: the devices are 0 to %d", i, len(adapters)-1)
		}
		return adapters[i], nil
	}
	var names []string
	for _, a := range adapters {
		if strings.Contains(strings.ToLower(a.Name), strings.ToLower(which)) {
			return a, nil
		}
		names = append(names, strconv.Quote(a.Name))
	}
	return nil, fmt.Errorf("there is no device %q: this machine has %s", which, strings.Join(names, ", "))
}

// Open makes a device with all limits and known features of the adapter. CooperativeMatrix is left out, of the adapter's features too, if
// the library refuses it.
func (a *Adapter) Open() (*Device, error) {
	d, err := a.open()
	if i := slices.Index(a.Features, CooperativeMatrix); err != nil && i >= 0 {
		refused := err
		a.Features = slices.Delete(slices.Clone(a.Features), i, i+1)
		if d, err = a.open(); err == nil {
			a.Refused = fmt.Errorf("%v is listed but not granted: %w", CooperativeMatrix, refused)
		}
	}
	return d, err
}

func (a *Adapter) open() (*Device, error) {
	d := &Device{Adapter: a, lib: a.lib, lost: newReply(), failed: newReply(), popped: newReply()}
	limits := a.Limits
	d.made = &deviceDescriptor{featureCount: uintptr(len(a.Features)), features: unsafe.SliceData(a.Features), limits: &limits,
		lost: a.lib.cb.info(a.lib.cb.lost, d.lost.id), failed: errorCallbackInfo{0, a.lib.cb.failed, d.failed.id, 0}}
	r := newReply()
	defer r.drop()
	d.invokeWithInfo(a.lib.c.AdapterRequestDevice, a.lib.cb.info(a.lib.cb.handle, r.id), a.handle, uintptr(unsafe.Pointer(d.made)))
	runtime.KeepAlive(a)
	if err := r.err("no device could be made of " + a.Name); err != nil {
		return nil, err
	}
	d.handle = r.handle
	d.queue = a.lib.c.DeviceGetQueue.call(d.handle)
	return d, nil
}
