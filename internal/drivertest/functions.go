package drivertest

import (
	"fmt"
	"strings"
	"unsafe"
)

// launchConfig is CUlaunchConfig.
type launchConfig struct {
	blocks, threads    [3]uint32
	shared             uint32
	stream, attributes uintptr
	count              uint32
}

// functions are the library's, by C name; arguments are as in cuda.h.
var functions = map[string]any{
	"cuInit": func(d *Driver, flags uintptr) uintptr {
		d.initialised = true
		return 0
	},
	"cuDriverGetVersion": func(d *Driver, to uintptr) uintptr { put(to, d.Version); return 0 },
	"cuGetErrorName":     func(d *Driver, code, to uintptr) uintptr { return d.name("CUDA_ERROR_FAKE", to) },
	"cuGetErrorString":   func(d *Driver, code, to uintptr) uintptr { return d.name("a fake error", to) },

	"cuDeviceGetCount": func(d *Driver, to uintptr) uintptr { put(to, d.Devices); return 0 },
	"cuDeviceGet": func(d *Driver, to, number uintptr) uintptr {
		if int32(number) >= d.Devices {
			return d.problem("device %d of %d", number, d.Devices)
		}
		put(to, int32(number))
		return 0
	},
	"cuDeviceGetName": func(d *Driver, to, size, dev uintptr) uintptr {
		copy(unsafe.Slice(at[byte](to), size), d.Name+"\x00")
		return 0
	},
	"cuDeviceGetAttribute": func(d *Driver, to, attr, dev uintptr) uintptr {
		v, ok := map[uintptr]int{16: 132, 75: d.Capability / 10, 76: d.Capability % 10, 97: 227 << 10}[attr]
		if !ok {
			return d.problem("attribute %d", attr)
		}
		put(to, int32(v))
		return 0
	},
	"cuDeviceTotalMem_v2":          func(d *Driver, to, dev uintptr) uintptr { put(to, uint64(1<<34)); return 0 },
	"cuDevicePrimaryCtxRetain":     func(d *Driver, to, dev uintptr) uintptr { d.context++; put(to, uintptr(77)); return 0 },
	"cuDevicePrimaryCtxRelease_v2": func(d *Driver, dev uintptr) uintptr { d.context--; return 0 },
	"cuCtxSetCurrent": func(d *Driver, ctx uintptr) uintptr {
		if ctx != 77 || d.context < 1 {
			return d.problem("context %d is made current, %d are retained", ctx, d.context)
		}
		return 0
	},
	"cuCtxSynchronize": func(d *Driver) uintptr { return 0 },
	"cuMemGetInfo_v2": func(d *Driver, free, total uintptr) uintptr {
		put(free, uint64(max(0, d.Free-d.held)))
		put(total, uint64(1<<34))
		return 0
	},

	"cuMemAlloc_v2": func(d *Driver, to, size uintptr) uintptr {
		if size == 0 || d.capturing != 0 {
			return d.problem("an allocation of %d bytes, capturing: %t", size, d.capturing != 0)
		}
		raw := make([]byte, size+512)
		p := (uintptr(unsafe.Pointer(&raw[0])) + 511) &^ 511
		b := raw[p-uintptr(unsafe.Pointer(&raw[0])):][:size]
		d.memory[p] = b
		d.held += len(b)
		d.Peak = max(d.Peak, d.held)
		put(to, p)
		return 0
	},
	"cuMemFree_v2": func(d *Driver, p uintptr) uintptr {
		if d.memory[p] == nil {
			return d.problem("memory at %#x is freed and was not taken", p)
		}
		d.held -= len(d.memory[p])
		delete(d.memory, p)
		return 0
	},
	"cuMemHostAlloc": func(d *Driver, to, size, flags uintptr) uintptr {
		b := make([]byte, size)
		p := uintptr(unsafe.Pointer(&b[0]))
		d.pinned[p] = b
		put(to, p)
		return 0
	},
	"cuMemFreeHost": func(d *Driver, p uintptr) uintptr {
		if d.pinned[p] == nil {
			return d.problem("pinned memory at %#x is freed and was not taken", p)
		}
		delete(d.pinned, p)
		return 0
	},
	"cuMemcpyHtoD_v2": func(d *Driver, to, from, n uintptr) uintptr {
		if d.within("cuMemcpyHtoD", d.memory, to, n) {
			copy(unsafe.Slice(at[byte](to), n), unsafe.Slice(at[byte](from), n))
		}
		return 0
	},
	"cuMemcpyDtoH_v2": func(d *Driver, to, from, n uintptr) uintptr {
		if d.within("cuMemcpyDtoH", d.memory, from, n) {
			copy(unsafe.Slice(at[byte](to), n), unsafe.Slice(at[byte](from), n))
		}
		return 0
	},
	"cuMemsetD8_v2": func(d *Driver, p, v, n uintptr) uintptr {
		if d.within("cuMemsetD8", d.memory, p, n) {
			for i := range unsafe.Slice(at[byte](p), n) {
				put(p+uintptr(i), byte(v))
			}
		}
		return 0
	},
	"cuMemcpyHtoDAsync_v2": func(d *Driver, to, from, n, stream uintptr) uintptr { return d.queued("up", to, from, n, stream) },
	"cuMemcpyDtoHAsync_v2": func(d *Driver, to, from, n, stream uintptr) uintptr { return d.queued("down", from, to, n, stream) },
	"cuMemcpyDtoDAsync_v2": func(d *Driver, to, from, n, stream uintptr) uintptr {
		return d.queued("on the device", to, from, n, stream)
	},

	"cuLinkCreate_v2": func(d *Driver, n, options, values, to uintptr) uintptr { return d.handle("link", to) },
	"cuLinkAddData_v2": func(d *Driver, state, kind, data, size, name, n, options, values uintptr) uintptr {
		ptx := string(unsafe.Slice(at[byte](data), size))
		if !d.is("link", state) || kind != 1 || !strings.HasSuffix(ptx, "\x00") || !strings.HasPrefix(ptx, ".version") {
			return d.problem("no PTX, or without its end: kind %d, %.20q", kind, ptx)
		}
		if strings.Contains(ptx, `.pragma "start next"`) || strings.Contains(ptx, `.pragma "wait for last"`) {
			return d.problem("%s: PTX with the generator's marks, which the driver would pass over", text(name))
		}
		d.modules = append(d.modules, []byte("machine code of "+text(name)+"\x00"))
		return 0
	},
	"cuLinkComplete": func(d *Driver, state, code, size uintptr) uintptr {
		last := d.modules[len(d.modules)-1]
		put(code, &last[0])
		put(size, uintptr(len(last)))
		return 0
	},
	"cuLinkDestroy": func(d *Driver, state uintptr) uintptr { return d.drop("link", state) },
	"cuModuleLoadData": func(d *Driver, to, code uintptr) uintptr {
		if d.NoCode && *at[byte](code) == 0x7f { // ELF
			return 209
		}
		return d.handle("module", to)
	},
	"cuModuleUnload": func(d *Driver, m uintptr) uintptr { return d.drop("module", m) },
	"cuModuleGetFunction": func(d *Driver, to, m, name uintptr) uintptr {
		d.is("module", m)
		d.next += 64
		d.functions[d.next] = text(name)
		put(to, d.next)
		return 0
	},
	"cuFuncSetAttribute": func(d *Driver, f, attr, v uintptr) uintptr {
		if d.functions[f] == "" || attr != 8 || v > 227<<10 {
			return d.problem("attribute %d of function %q is made %d", attr, d.functions[f], v)
		}
		d.allowed[f] = v
		return 0
	},
	"cuLaunchKernelEx": func(d *Driver, config, f, params, extra uintptr) uintptr {
		c := *at[launchConfig](config)
		name := d.functions[f]
		if name == "" || !d.is("stream", c.stream) || d.capturing != c.stream {
			return d.problem("a launch of %q outside of a graph, or of nothing", name)
		}
		if c.blocks[0]-1 >= 1<<31-1 || c.blocks[1]-1 >= 65535 || c.blocks[2]-1 >= 65535 ||
			c.threads[0] == 0 || c.threads[0] > 1024 || c.threads[1] != 1 || c.threads[2] != 1 ||
			uintptr(c.shared) > max(48<<10, d.allowed[f]) || *at[uintptr](params) == 0 || extra != 0 {
			return d.problem("%s: grid %v of %v threads, %d bytes of shared memory", name, c.blocks, c.threads, c.shared)
		}
		if c.count > 1 || c.count == 1 && (*at[uint32](c.attributes) != 6 || *at[uint32](c.attributes + 8) != 1 ||
			d.Capability < 90 || d.last != "launch") {
			return d.problem("%s starts early on a device of capability %d after %q", name, d.Capability, d.last)
		}
		d.Kernels[name]++
		d.last = "launch"
		d.Early += int(c.count)
		if d.Run != nil {
			l := Launch{name, [3]uint32(c.blocks[:]), int(c.threads[0]), parameters(*at[uintptr](params))}
			d.recorded = append(d.recorded, func() { d.Run(l) })
		}
		return 0
	},
	"cuTensorMapEncodeTiled": func(d *Driver, to, kind, rank, p, size, step, box, one, interleave, swizzle, promote, fill uintptr) uintptr {
		s, b := unsafe.Slice(at[uint64](size), 2), unsafe.Slice(at[uint32](box), 2)
		width := map[uintptr]uint64{6: 2, 9: 2, 11: 4}[kind]
		if to%64 != 0 || rank != 2 || p%16 != 0 || *at[uint64](step)%16 != 0 || *at[uint64](step) < width*s[0] ||
			uint64(b[0])*width > 128 || b[1] > 256 || s[0] == 0 || s[1] == 0 || width == 0 {
			return d.problem("a tensor map at %#x of %v at %#x, rows %d bytes apart, boxes %v", to, s, p, *at[uint64](step), b)
		}
		d.within("a tensor map", d.memory, p, uintptr((s[1]-1)**at[uint64](step)+width*s[0]))
		return 0
	},

	"nvrtcCreateProgram": func(d *Driver, to, source, name, headers, list, names uintptr) uintptr {
		d.handle("program", to)
		d.sources[d.next] = text(source)
		return 0
	},
	"nvrtcCompileProgram": func(d *Driver, p, n, options uintptr) uintptr {
		if !d.is("program", p) || n != 3 || text(*at[uintptr](options)) != fmt.Sprintf("--gpu-architecture=sm_%d", d.Capability) {
			return d.problem("NVRTC is asked for %d options", n)
		}
		if strings.Contains(d.sources[p], "refuse me") {
			return 6
		}
		d.Sources = append(d.Sources, d.sources[p])
		return 0
	},
	"nvrtcGetProgramLogSize": func(d *Driver, p, to uintptr) uintptr { put(to, uintptr(len(refusal))); return 0 },
	"nvrtcGetProgramLog": func(d *Driver, p, to uintptr) uintptr {
		copy(unsafe.Slice(at[byte](to), len(refusal)), refusal)
		return 0
	},
	"nvrtcGetCUBINSize": func(d *Driver, p, to uintptr) uintptr { put(to, uintptr(4)); return 0 },
	"nvrtcGetCUBIN":     func(d *Driver, p, to uintptr) uintptr { put(to, [4]byte{'c', 'o', 'd', 'e'}); return 0 },
	"nvrtcDestroyProgram": func(d *Driver, p uintptr) uintptr {
		delete(d.sources, *at[uintptr](p))
		return d.drop("program", *at[uintptr](p))
	},

	"cuStreamCreate":      func(d *Driver, to, flags uintptr) uintptr { return d.handle("stream", to) },
	"cuStreamDestroy_v2":  func(d *Driver, s uintptr) uintptr { return d.drop("stream", s) },
	"cuStreamSynchronize": func(d *Driver, s uintptr) uintptr { d.is("stream", s); d.Log = append(d.Log, "wait"); return 0 },
	"cuStreamBeginCapture_v2": func(d *Driver, s, mode uintptr) uintptr {
		if !d.is("stream", s) || d.capturing != 0 || mode != 1 {
			return d.problem("a capture inside of another, or of mode %d", mode)
		}
		d.capturing, d.last, d.recorded = s, "", nil
		return 0
	},
	"cuStreamEndCapture": func(d *Driver, s, to uintptr) uintptr {
		if d.capturing != s {
			return d.problem("a capture ends that has not begun")
		}
		d.capturing = 0
		d.handle("graph", to)
		d.graphs[d.next] = d.recorded
		return 0
	},
	"cuGraphInstantiateWithFlags": func(d *Driver, to, graph, flags uintptr) uintptr {
		d.is("graph", graph)
		d.handle("executable graph", to)
		d.graphs[d.next] = d.graphs[graph]
		return 0
	},
	"cuGraphLaunch": func(d *Driver, g, s uintptr) uintptr {
		if d.is("executable graph", g) && d.is("stream", s) {
			d.Log = append(d.Log, "run")
			for _, f := range d.graphs[g] {
				f()
			}
		}
		return 0
	},
	"cuGraphExecDestroy": func(d *Driver, g uintptr) uintptr { return d.drop("executable graph", g) },
	"cuGraphDestroy":     func(d *Driver, g uintptr) uintptr { return d.drop("graph", g) },

	"cuEventCreate":          func(d *Driver, to, flags uintptr) uintptr { return d.handle("event", to) },
	"cuEventDestroy_v2":      func(d *Driver, e uintptr) uintptr { return d.drop("event", e) },
	"cuEventRecord":          func(d *Driver, e, s uintptr) uintptr { d.is("event", e); return 0 },
	"cuEventRecordWithFlags": func(d *Driver, e, s, flags uintptr) uintptr { d.is("event", e); d.last = "event"; return 0 },
	"cuEventSynchronize":     func(d *Driver, e uintptr) uintptr { d.is("event", e); return 0 },
	"cuEventElapsedTime": func(d *Driver, to, from, e uintptr) uintptr {
		if d.is("event", from) && d.is("event", e) {
			put(to, float32(50))
		}
		return 0
	},
}

// refusal is what the compiler says of a text that it refuses.
var refusal = []byte("com.example.Bad(1): error: refused\nand more\x00")

// queued is a copy that a graph does, between the device and pinned memory or on the device.
func (d *Driver) queued(way string, device, other, n, stream uintptr) uintptr {
	if !d.is("stream", stream) || d.capturing != stream {
		return d.problem("a copy outside of a graph")
	}
	where := d.pinned
	if way == "on the device" {
		where = d.memory
	}
	d.within("a copy "+way, d.memory, device, n)
	d.within("a copy "+way, where, other, n)
	d.Log, d.last = append(d.Log, way), way
	d.Copied[way] += int(n)
	if d.Run != nil {
		to, from := unsafe.Slice(at[byte](device), n), unsafe.Slice(at[byte](other), n)
		if way == "down" {
			to, from = from, to
		}
		d.recorded = append(d.recorded, func() { copy(to, from) })
	}
	return 0
}

// parameters copies a kernel's struct, whose size only the kernel knows: what is after it is copied as well, and read by nothing.
//
//go:nocheckptr
func parameters(address uintptr) []byte {
	return append([]byte(nil), unsafe.Slice(at[byte](address), mostParams)...)
}
